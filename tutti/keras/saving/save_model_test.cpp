#include "tutti/keras/saving/save_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/dtensor/layout_map.h"
#include "tutti/files/archive.h"
#include "tutti/keras/layers/activations/activation.h"
#include "tutti/keras/layers/activations/relu.h"
#include "tutti/keras/layers/attention/attention.h"
#include "tutti/keras/layers/attention/group_query_attention.h"
#include "tutti/keras/layers/attention/multi_head_attention.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/convolutional/conv_transpose.h"
#include "tutti/keras/layers/convolutional/depthwise_conv.h"
#include "tutti/keras/layers/convolutional/separable_conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/einsum_dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/core/input_layer.h"
#include "tutti/keras/layers/core/lambda.h"
#include "tutti/keras/layers/core/masking.h"
#include "tutti/keras/layers/merging/concatenate.h"
#include "tutti/keras/layers/merging/dot.h"
#include "tutti/keras/layers/merging/merge.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/normalization/group_normalization.h"
#include "tutti/keras/layers/normalization/layer_normalization.h"
#include "tutti/keras/layers/normalization/spectral_normalization.h"
#include "tutti/keras/layers/pooling/adaptive_pooling.h"
#include "tutti/keras/layers/pooling/global_pooling.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/preprocessing/normalization.h"
#include "tutti/keras/layers/preprocessing/rescaling.h"
#include "tutti/keras/layers/recurrent/bidirectional.h"
#include "tutti/keras/layers/recurrent/conv_lstm.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/recurrent/rnn.h"
#include "tutti/keras/layers/recurrent/rnn_cell.h"
#include "tutti/keras/layers/recurrent/simple_rnn.h"
#include "tutti/keras/layers/recurrent/time_distributed.h"
#include "tutti/keras/layers/regularization/activity_regularization.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/cropping.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/layers/reshaping/reshape.h"
#include "tutti/keras/layers/reshaping/up_sampling.h"
#include "tutti/keras/saving/load_model.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using namespace layers;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string config_of(const std::filesystem::path& file) {
  std::string config;
  files::read_archive(
      file, [](const std::string& member) { return member == "config.json"; },
      [&](const std::string&, std::string bytes) { config = std::move(bytes); });
  return config;
}

void fill_weights(const Model& model) {
  const c10::NoGradGuard no_grad;
  for (const Weight& weight : model.weights()) Tensor(weight.value).uniform_(0.1, 0.5);
}

// That the model comes back from a file with each of its options, which a second file then has too, and predicts the
// same, bit for bit.
void expect_equal_when_loaded(const Model& model, const std::vector<Tensor>& x, const SaveModelOptions& save = {},
                              const LoadModelOptions& load = {}) {
  const TemporaryFolder folder;
  fill_weights(model);
  model.save(folder / "m.keras", save);
  const Model loaded = load_model(folder / "m.keras", load);
  const std::vector<Tensor> seen = loaded.predict_outputs(x), expected = model.predict_outputs(x);
  ASSERT_EQ(seen.size(), expected.size());
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_TRUE(at::equal(seen[i], expected[i])) << i;
  loaded.save(folder / "again.keras", save);
  EXPECT_EQ(config_of(folder / "again.keras"), config_of(folder / "m.keras"));
}

void expect_equal_when_loaded(const Shape& input, std::vector<Layer> layers) {
  layers.insert(layers.begin(), InputLayer({.shape = input}));
  Shape batch = input;
  batch.insert(batch.begin(), 3);
  expect_equal_when_loaded(Sequential(std::move(layers)), {at::rand(batch)});
}

// With no option as it is by itself.
TEST(SaveModel, KeepsEveryOptionOfDenseLayers) {
  expect_equal_when_loaded({4}, {Dense({.units = 5,
                                        .activation = activations::gelu,
                                        .kernel_initializer = initializers::HeNormal({.seed = 3}),
                                        .bias_initializer = initializers::Constant(0.5),
                                        .kernel_regularizer = regularizers::L1L2({.l1 = 0.25, .l2 = 0.5}),
                                        .bias_regularizer = regularizers::L1(0.125),
                                        .activity_regularizer = regularizers::L2(0.75),
                                        .kernel_constraint = constraints::MaxNorm({.max_value = 3, .axis = {0, 1}}),
                                        .bias_constraint = constraints::NonNeg(),
                                        .name = "first"}),
                                 Dense({.units = 3,
                                        .use_bias = false,
                                        .kernel_initializer = initializers::VarianceScaling(
                                            {.scale = 2,
                                             .mode = initializers::FanMode::fan_out,
                                             .distribution = initializers::Distribution::uniform}),
                                        .kernel_regularizer = regularizers::OrthogonalRegularizer(
                                            {.mode = regularizers::OrthogonalRegularizerOptions::Mode::columns}),
                                        .kernel_constraint = constraints::MinMaxNorm({.min_value = 0.5, .rate = 0.5})}),
                                 Dense({.units = 3,
                                        .kernel_initializer = initializers::Orthogonal(2, 5),
                                        .bias_initializer = initializers::RandomUniform({.minval = -1, .seed = 7}),
                                        .kernel_constraint = constraints::UnitNorm({.axis = {1}})}),
                                 Dense({.units = 3,
                                        .kernel_initializer = initializers::Identity(3),
                                        .bias_initializer = initializers::TruncatedNormal({.mean = 1})})});
}

TEST(SaveModel, KeepsEveryOptionOfConvolutions) {
  expect_equal_when_loaded(
      {16, 12, 4},
      {Conv2D({.filters = 4,
               .kernel_size = {3, 2},
               .strides = {2, 1},
               .padding = Padding::same,
               .groups = 2,
               .activation = activations::relu,
               .kernel_regularizer = regularizers::L2(0.5)}),
       DepthwiseConv2D({.kernel_size = {2, 3}, .depth_multiplier = 2, .dilation_rate = {1, 2}, .use_bias = false}),
       SeparableConv2D({.filters = 5,
                        .depth_multiplier = 2,
                        .activation = activations::tanh,
                        .pointwise_initializer = initializers::LecunNormal(),
                        .depthwise_constraint = constraints::NonNeg()}),
       Conv2DTranspose({.filters = 3, .strides = {2, 2}, .padding = Padding::same, .output_padding = {{1, 0}}}),
       MaxPooling2D({.pool_size = {2, 1}}), AveragePooling2D({.strides = {1, 1}, .padding = Padding::same}),
       GlobalAveragePooling2D({.keepdims = true}), Flatten()});
  expect_equal_when_loaded({4, 9}, {Conv1D({.filters = 4, .data_format = DataFormat::channels_first}),
                                    AveragePooling1D({.data_format = DataFormat::channels_first}),
                                    GlobalMaxPooling1D({.data_format = DataFormat::channels_first})});
  expect_equal_when_loaded({12, 3}, {Conv1D({.filters = 4, .padding = Padding::causal, .dilation_rate = {2}}),
                                     SeparableConv1D({.filters = 3}), DepthwiseConv1D(),
                                     Conv1DTranspose({.filters = 2}), MaxPooling1D(), GlobalAveragePooling1D()});
  expect_equal_when_loaded({8, 8, 8, 2}, {Conv3D({.filters = 3}), Conv3DTranspose({.filters = 2}), MaxPooling3D(),
                                          AveragePooling3D({.pool_size = {1, 2, 1}}), GlobalMaxPooling3D()});
  expect_equal_when_loaded({8, 8, 2}, {GlobalMaxPooling2D()});
  expect_equal_when_loaded({4, 4, 4, 2}, {GlobalAveragePooling3D()});
}

TEST(SaveModel, KeepsEveryOptionOfSmallLayers) {
  Normalization normalization({.axis = {1, -1}, .invert = true});
  expect_equal_when_loaded(
      {6, 4},
      {normalization, Normalization({.axis = {}}), Rescaling({.scale = 0.5, .offset = 2}),
       BatchNormalization({.axis = 1, .momentum = 0.5, .epsilon = 0.25, .center = false, .synchronized = true}),
       BatchNormalization({.scale = false, .moving_mean_initializer = initializers::Ones()}),
       LayerNormalization({.axis = {1, 2}, .epsilon = 0.5, .gamma_regularizer = regularizers::L1(0.5)}),
       GroupNormalization({.groups = 2, .axis = 1, .scale = false}), RMSNormalization({.axis = {1, 2}, .epsilon = 0.5}),
       layers::Activation(activations::softmax), ReLU({.max_value = 2, .negative_slope = 0.25, .threshold = 0.125}),
       ReLU(), PReLU({.alpha_regularizer = regularizers::L2(), .shared_axes = {1}}), Softmax({.axis = 1}),
       Dropout({.rate = 0.25, .noise_shape = {kUnknown, 1, kUnknown}}), Reshape({.target_shape = {2, -1}}), Flatten()});
}

TEST(SaveModel, KeepsEveryOptionOfRecurrentLayers) {
  expect_equal_when_loaded(
      {7, 4}, {SimpleRNN({.units = 5,
                          .activation = activations::relu,
                          .recurrent_regularizer = regularizers::L2(),
                          .dropout = 0.25,
                          .recurrent_dropout = 0.5,
                          .return_sequences = true,
                          .go_backwards = true}),
               GRU({.units = 4,
                    .activation = activations::sigmoid,
                    .recurrent_activation = activations::hard_sigmoid,
                    .reset_after = false,
                    .return_sequences = true,
                    .zero_output_for_mask = true}),
               Bidirectional(GRU({.units = 4, .return_sequences = true, .name = "g"}), {.merge_mode = MergeMode::sum}),
               Bidirectional(LSTM({.units = 2, .return_sequences = true})),
               TimeDistributed(Dense({.units = 2, .activation = activations::tanh, .name = "inner"})),
               LSTM({.units = 3, .use_bias = false, .unit_forget_bias = false})});
}

TEST(SaveModel, KeepsIdsAndMasks) {
  const Sequential model(
      {Embedding({.input_dim = 20, .output_dim = 4, .embeddings_regularizer = regularizers::L2(), .mask_zero = true}),
       LSTM({.units = 3})});  // without an InputLayer
  model.build({kUnknown, 6});
  expect_equal_when_loaded(model, {at::randint(0, 20, {3, 6})});
}

TEST(SaveModel, KeepsDtypesAndWhatIsFrozen) {
  const DTypePolicyGuard policy(DTypePolicy::float64);
  const Dense frozen({.units = 3});
  frozen.set_trainable(false);
  const Sequential model({InputLayer({.shape = {4}, .batch = 3}), frozen, Dense({.units = 2})});
  expect_equal_when_loaded(model, {at::rand({3, 4})});
}

TEST(SaveModel, KeepsEveryOptionOfPlaces) {
  expect_equal_when_loaded(
      {6, 8, 3},
      {ZeroPadding2D({.padding = {{{1, 2}, {3, 4}}}}), Cropping2D({.cropping = {{{2, 1}, {0, 3}}}}),
       UpSampling2D({.size = {2, 3}, .interpolation = Interpolation::bilinear}),
       AdaptiveAveragePooling2D({.output_size = {3, 4}}),
       AdaptiveMaxPooling2D({.output_size = {2, 3}, .data_format = DataFormat::channels_first}),
       Permute({.dims = {2, 3, 1}}), SpatialDropout2D({.rate = 0.25, .data_format = DataFormat::channels_first}),
       Flatten(), RepeatVector({.n = 4}), Cropping1D({.cropping = {{{0, 1}}}}), UpSampling1D({.size = {3}}),
       ZeroPadding1D({.padding = {{{2, 0}}}}), SpatialDropout1D({.rate = 0.5}),
       AdaptiveMaxPooling1D({.output_size = {4}}), AdaptiveAveragePooling1D({.output_size = {2}})});
  expect_equal_when_loaded(
      {2, 2, 2, 3},
      {ZeroPadding3D({.padding = {{{1, 0}, {0, 2}, {1, 1}}}}), Cropping3D({.cropping = {{{0, 1}, {1, 0}, {0, 0}}}}),
       UpSampling3D({.size = {2, 1, 3}}), SpatialDropout3D({.rate = 0.5}),
       AdaptiveMaxPooling3D({.output_size = {2, 1, 2}}), AdaptiveAveragePooling3D({.output_size = {1, 1, 2}})});
}

TEST(SaveModel, KeepsEveryOptionOfNoiseAndUnits) {
  expect_equal_when_loaded(
      {4, 3}, {Masking({.mask_value = 0.5}), Identity(), LeakyReLU({.negative_slope = 0.125}), ELU({.alpha = 0.5}),
               AlphaDropout({.rate = 0.25, .noise_shape = {kUnknown, 1, kUnknown}}), GaussianDropout({.rate = 0.25}),
               GaussianNoise({.stddev = 0.5}), ActivityRegularization({.l1 = 0.25, .l2 = 0.5}),
               UnitNormalization({.axis = {1, 2}}), SpectralNormalization(Dense({.units = 3}), {.power_iterations = 2}),
               EinsumDense({.equation = "abc,cd->abd",
                            .output_shape = {kUnknown, 2},
                            .activation = activations::tanh,
                            .bias_axes = "d",
                            .kernel_regularizer = regularizers::L2()}),
               EinsumDense({.equation = "abc,cd->abd", .output_shape = {4, 2}})});
}

TEST(SaveModel, KeepsCells) {
  expect_equal_when_loaded(
      {6, 4}, {RNN(LSTMCell({.units = 3, .unit_forget_bias = false, .dropout = 0.25}), {.return_sequences = true}),
               RNN(StackedRNNCells({GRUCell({.units = 4, .reset_after = false}),
                                    SimpleRNNCell({.units = 3, .use_bias = false, .recurrent_dropout = 0.5})}),
                   {.return_sequences = true, .go_backwards = true}),
               RNN(GRUCell({.units = 2}), {.zero_output_for_mask = true})});
  expect_equal_when_loaded({3, 5, 4, 2}, {ConvLSTM2D({.filters = 2,
                                                      .kernel_size = {3, 2},
                                                      .padding = Padding::same,
                                                      .recurrent_regularizer = regularizers::L2(),
                                                      .bias_constraint = constraints::NonNeg(),
                                                      .return_sequences = true}),
                                          ConvLSTM2D({.filters = 3, .unit_forget_bias = false})});
}

// --- Graphs.

TEST(SaveModel, KeepsSharedLayersAndSeveralEnds) {
  const SymbolicTensor a = Input({.shape = {4}, .name = "a"}), b = Input({.shape = {4}, .name = "b"});
  const Dense shared({.units = 4});
  const SymbolicTensor sum = Add()({shared(a), shared(shared(b))});
  const SymbolicTensor all = Concatenate({.axis = 1})(
      {sum, Subtract()({a, b}), Multiply()({a, sum}), Maximum()({a, b}), Minimum()({sum, b}), Average()({a, sum})});
  const Model model({.inputs = {b, a}, .outputs = {Dense({.units = 2})(all), sum, shared(sum)}, .name = "net"});
  expect_equal_when_loaded(model, {at::rand({3, 4}), at::rand({3, 4})});
}

TEST(SaveModel, KeepsModelsInModels) {
  const SymbolicTensor inner_a = Input({.shape = {4}}), inner_b = Input({.shape = {4}});
  const Model inner(
      {.inputs = {inner_a, inner_b}, .outputs = {Dense({.units = 4})(Add()({inner_a, inner_b})), inner_b}});
  const Sequential chain(
      {InputLayer({.shape = {4}}), Dense({.units = 4}), Sequential({Dense({.units = 4}), BatchNormalization()})});
  const SymbolicTensor x = Input({.shape = {4}}), y = Input({.shape = {4}});
  const std::vector<SymbolicTensor> once = inner.outputs({x, y});
  const std::vector<SymbolicTensor> twice = inner.outputs({chain(once[0]), once[1]});
  const Model model({.inputs = {x, y}, .outputs = {twice[0], twice[1], once[0]}});
  expect_equal_when_loaded(model, {at::rand({3, 4}), at::rand({3, 4})});
}

TEST(SaveModel, KeepsAPartThatIsCutOut) {
  const SymbolicTensor x = Input({.shape = {4}});
  const Dense first({.units = 5, .name = "first"});
  const SymbolicTensor middle = first(x);
  const Model part({.inputs = {middle}, .outputs = {Dense({.units = 2})(middle)}});
  expect_equal_when_loaded(part, {at::rand({3, 5})});
}

TEST(SaveModel, KeepsFirstStates) {
  const SymbolicTensor x = Input({.shape = {5, 4}});
  const LSTM first({.units = 3, .return_sequences = true, .return_state = true});
  const std::vector<SymbolicTensor> outputs = first.outputs({x});
  const SymbolicTensor y = LSTM({.units = 3})({outputs[0], outputs[1], outputs[2]});
  expect_equal_when_loaded(Model({.inputs = {x}, .outputs = {y, outputs[2]}}), {at::rand({3, 5, 4})});
}

TEST(SaveModel, KeepsAttentionWithWhatItsCallsSay) {
  const SymbolicTensor x = Input({.shape = {6, 8}}), context = Input({.shape = {5, 8}}),
                       mask = Input({.shape = {6, 5}});
  const MultiHeadAttention masked({.num_heads = 2, .key_dim = 3, .value_dim = 4, .output_dim = 8});
  const SymbolicTensor y = Add()({x, masked({x, context, context, mask})});
  const GroupQueryAttention causal(
      {.head_dim = 4, .num_query_heads = 4, .num_key_value_heads = 2, .use_bias = false, .use_causal_mask = true});
  const Attention scored({.use_scale = true, .score_mode = ScoreMode::concat, .return_attention_scores = true});
  const std::vector<SymbolicTensor> scores = scored.outputs({causal({y, y}), context});
  const SymbolicTensor additive = AdditiveAttention({.use_scale = false, .use_causal_mask = true})({y, y, x});
  const SymbolicTensor self = MultiHeadAttention({.num_heads = 2, .key_dim = 2, .use_bias = false})(additive);
  const SymbolicTensor product = Dot({.first_axis = 2, .second_axis = -1, .normalize = true})({self, scores[0]});
  expect_equal_when_loaded(Model({.inputs = {x, context, mask}, .outputs = {product, scores[1]}}),
                           {at::rand({3, 6, 8}), at::rand({3, 5, 8}), at::rand({3, 6, 5}) > 0.5});
}

// --- Layers of one's own.

struct ShiftOptions {
  double by = 0;
  Shape shape = {};
};

void list_shift(LayerConfig& config, ShiftOptions& options) {
  config.option("by", options.by);
  config.option("shape", options.shape);
}

class ShiftImpl : public LayerImpl {
 public:
  explicit ShiftImpl(ShiftOptions options) : LayerImpl("Shift", ""), options(std::move(options)) {}
  Tensor call(const Tensor& x, const CallOptions&) const override { return x + options.by; }
  const ShiftOptions options;
};

TEST(SaveModel, WritesLayersOfOnesOwnByTheirFunction) {
  const auto write = [](const Layer& layer, LayerConfig& config) {
    ShiftOptions options = dynamic_cast<const ShiftImpl&>(*layer.impl()).options;
    list_shift(config, options);
  };
  const auto make = [](LayerConfig& config) {
    ShiftOptions options;
    list_shift(config, options);
    return Layer(std::make_shared<ShiftImpl>(options));
  };
  const Sequential model(
      {InputLayer({.shape = {3}}), Layer(std::make_shared<ShiftImpl>(ShiftOptions{0.5, {kUnknown, 3}}))});
  EXPECT_THAT(error_of([&] { model.save("m.keras"); }),
              AllOf(HasSubstr("unimplemented: save: '"), HasSubstr("the layer shift (Shift) is of a class"),
                    HasSubstr("custom_layers")));
  expect_equal_when_loaded(model, {at::rand({2, 3})}, {.custom_layers = {{"Shift", {"mine>Shift", write}}}},
                           {.custom_layers = {{"mine>Shift", make}}});
  const TemporaryFolder folder;
  model.save(folder / "m.keras", {.custom_layers = {{"Shift", {"mine>Shift", write}}}});
  EXPECT_THAT(config_of(folder / "m.keras"),
              AllOf(HasSubstr(R"("class_name": "Shift")"), HasSubstr(R"("registered_name": "mine>Shift")"),
                    HasSubstr(R"("by": 0.5)"), HasSubstr(R"("shape": [null, 3])")));
}

// --- What cannot be written.

class SaveModelRefusal : public testing::Test {
 protected:
  // Of a model of one input and these layers; the file that was there must stay.
  std::string refusal_of(std::vector<Layer> layers) {
    layers.insert(layers.begin(), InputLayer({.shape = {4, 3}}));
    return refusal_of(Sequential(std::move(layers)));
  }
  std::string refusal_of(const Model& model) {
    folder_.write("m.keras", "as it was");
    std::string error = error_of([&] { model.save(folder_ / "m.keras"); });
    EXPECT_EQ(folder_.read("m.keras"), "as it was");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
    return error;
  }
  const TemporaryFolder folder_;
};

TEST_F(SaveModelRefusal, NamesTheLayerAndTheWayOut) {
  EXPECT_THAT(refusal_of({Lambda({.function = [](const Tensor& x) { return x; }})}),
              AllOf(HasSubstr("unimplemented"), HasSubstr("the layer lambda (Lambda)"), HasSubstr("custom_layers")));
  constexpr activations::Activation cube{"cube", [](const Tensor& x) { return x.pow(3); }};
  EXPECT_THAT(refusal_of({Dense({.units = 2, .activation = cube, .name = "head"})}),
              AllOf(HasSubstr("unimplemented"), HasSubstr("the layer head (Dense) has activation = cube"),
                    HasSubstr("a layer behind this one")));
  constexpr activations::Activation relu{"relu", [](const Tensor& x) { return x; }};
  EXPECT_THAT(refusal_of({Dense({.units = 2, .activation = relu})}), HasSubstr("has activation = relu"));
  EXPECT_THAT(refusal_of({layers::Activation(activations::LeakyReLU(0.125))}), HasSubstr("layers::LeakyReLU"));
  const initializers::Initializer own("glorot_uniform", [](Tensor& x) { x.fill_(1); });
  EXPECT_THAT(refusal_of({Dense({.units = 2, .kernel_initializer = own})}),
              AllOf(HasSubstr("has kernel_initializer = glorot_uniform, a function of this program")));
  const regularizers::Regularizer penalty("own", [](const Tensor& x) { return x.sum(); });
  EXPECT_THAT(refusal_of({TimeDistributed(Dense({.units = 2, .bias_regularizer = penalty}))}),
              HasSubstr("the layer dense (Dense) has bias_regularizer = own"));
}

TEST_F(SaveModelRefusal, NamesWhatKerasHasInCallsAlone) {
  EXPECT_THAT(refusal_of({MultiHeadAttention({.num_heads = 2, .key_dim = 2})}),
              AllOf(HasSubstr("the layer multi_head_attention"), HasSubstr("call it in a functional model")));
  EXPECT_THAT(refusal_of({UpSampling1D({.data_format = DataFormat::channels_first})}),
              AllOf(HasSubstr("the layer up_sampling1d"), HasSubstr("channels_first")));
}

class OwnModel : public ModelImpl {
 public:
  OwnModel() : ModelImpl("OwnModel") {}
  Tensor call(const Tensor& x, const CallOptions& options) const override { return dense_(x, options); }

 private:
  Dense dense_ = add(Dense({.units = 4}));
};

TEST_F(SaveModelRefusal, NamesAModelThatIsAClass) {
  const Model model(std::make_shared<OwnModel>());
  EXPECT_THAT(refusal_of(model), AllOf(HasSubstr("failed_precondition"), HasSubstr("call build")));
  model.build({kUnknown, 3});
  EXPECT_THAT(refusal_of(model), AllOf(HasSubstr("unimplemented"),
                                       HasSubstr("own_model (OwnModel) is a class of your "
                                                 "own"),
                                       HasSubstr("save_weights")));
}

TEST_F(SaveModelRefusal, NamesALayerInTwoModels) {
  const Dense shared({.units = 3, .name = "both"});
  const SymbolicTensor x = Input({.shape = {3}}), inner_x = Input({.shape = {3}});
  const Model inner({.inputs = {inner_x}, .outputs = {shared(inner_x)}});
  EXPECT_THAT(refusal_of(Model({.inputs = {x}, .outputs = {shared(inner(x))}})),
              HasSubstr("the layer both (Dense) is in two models"));
}

TEST_F(SaveModelRefusal, WantsKerassEnding) {
  const Sequential model({InputLayer({.shape = {3}}), Dense({.units = 2})});
  EXPECT_THAT(error_of([&] { model.save(folder_ / "m.zip"); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("must end in .keras")));
}

// --- Where the weights lie.

TEST(SaveModel, WritesMirroredAndShardedWeightsWhole) {
  const auto make = [] { return Sequential({InputLayer({.shape = {4}}), Dense({.units = 6}), Dense({.units = 2})}); };
  const TemporaryFolder folder;
  const Sequential plain = make();
  fill_weights(plain);
  plain.save(folder / "plain.keras");
  plain.save_weights(folder / "w.weights.h5");
  const Tensor x = at::rand({6, 4}), expected = plain.predict(x);

  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Sequential mirrored = strategy.build(make);
  mirrored.load_weights(folder / "w.weights.h5");
  mirrored.save(folder / "mirrored.keras");
  EXPECT_TRUE(at::equal(load_model(folder / "mirrored.keras").predict(x), expected));
  const Model on_replicas = strategy.build([&] { return load_model(folder / "plain.keras"); });
  EXPECT_TRUE(at::equal(on_replicas.predict(x), expected));

  for (const bool merge : {true, false}) {
    const Mesh mesh({{"model", 2}}, configure_logical_cpus(2), {.merge = merge});
    const dtensor::LayoutMap map(mesh,
                                 {{"dense.kernel", {kUnsharded, "model"}}, {"dense_1.kernel", {"model", kUnsharded}}});
    const Sequential sharded = map.build(make);
    sharded.load_weights(folder / "w.weights.h5");
    sharded.save(folder / "sharded.keras");
    EXPECT_TRUE(at::equal(load_model(folder / "sharded.keras").predict(x), expected)) << merge;
  }
}

// --- Files that were damaged.

TEST(SaveModel, LoadRefusesEveryTruncatedFile) {
  const TemporaryFolder folder;
  Sequential({InputLayer({.shape = {3}}), Dense({.units = 2})}).save(folder / "m.keras");
  const std::string whole = folder.read("m.keras");
  for (size_t size = 0; size < whole.size(); size += 97) {
    folder.write("cut.keras", whole.substr(0, size));
    EXPECT_EQ(code_of([&] { load_model(folder / "cut.keras"); }), ErrorCode::data_loss) << size;
  }
}

}  // namespace
}  // namespace tutti::keras
