// keras_weights FOLDER: for each model below reads what read_and_write.py has left there, NAME.weights.h5 and the
// inputs NAME.x.npz, and writes its predictions, NAME.y.npz, and the weights again, NAME.again.weights.h5; then weights
// of its own, NAME.own.weights.h5, with their predictions, NAME.own.npz. The models are those of read_and_write.py.
// Of NAME.keras, where there is one, the predictions go to NAME.file.npz, and the model, written again, to
// NAME.again.keras; the model with weights of its own to NAME.own.keras. Of NAME.ENDING.h5, as Keras 2 had them, the
// predictions go to NAME.ENDING.npz.
// keras_weights FOLDER alone: so .keras files alone, of any models.
#include <tutti/tutti.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace tutti;
using namespace tutti::keras;
using namespace tutti::keras::layers;

namespace {

Sequential stack(const Shape& input, std::vector<Layer> layers) {
  layers.insert(layers.begin(), InputLayer({.shape = input}));
  return Sequential(std::move(layers));
}

Model mlp() {
  return stack({5},
               {Dense({.units = 7, .activation = activations::relu}), Dropout({.rate = 0.5}), Dense({.units = 3})});
}

Model images() {
  return stack({16, 12, 3},
               {Conv2D({.filters = 4, .padding = Padding::same, .activation = activations::relu}), BatchNormalization(),
                MaxPooling2D(), Conv2DTranspose({.filters = 6, .strides = {2, 2}}),
                SeparableConv2D({.filters = 8, .depth_multiplier = 2}), DepthwiseConv2D({.depth_multiplier = 2}),
                Conv2D({.filters = 4, .kernel_size = {1, 1}, .groups = 2, .use_bias = false}), GlobalAveragePooling2D(),
                Dense({.units = 3})});
}

Model signals() {
  return stack({20, 3}, {Conv1D({.filters = 4}), SeparableConv1D({.filters = 5}), DepthwiseConv1D(),
                         Conv1DTranspose({.filters = 3, .strides = {2}}), PReLU({.shared_axes = {1}}), Flatten()});
}

Model volumes() {
  return stack({6, 6, 6, 2}, {Conv3D({.filters = 3}), Conv3DTranspose({.filters = 2}), Flatten(), Dense({.units = 2})});
}

Model norms() {
  return stack({6, 8}, {LayerNormalization(), BatchNormalization({.center = false}), GroupNormalization({.groups = 4}),
                        RMSNormalization(), BatchNormalization({.scale = false}), Dense({.units = 2})});
}

Model text() {
  return stack({9}, {Embedding({.input_dim = 20, .output_dim = 8, .mask_zero = true}),
                     LSTM({.units = 6, .return_sequences = true}), GRU({.units = 5}), Dense({.units = 1})});
}

Model recurrent() {
  return stack({7, 4}, {SimpleRNN({.units = 5, .return_sequences = true}),
                        GRU({.units = 4, .reset_after = false, .return_sequences = true}),
                        LSTM({.units = 3, .use_bias = false})});
}

Model both_directions() {
  return stack({7, 4}, {Bidirectional(LSTM({.units = 5, .return_sequences = true})),
                        Bidirectional(GRU({.units = 4, .return_sequences = true}), {.merge_mode = MergeMode::sum}),
                        Bidirectional(SimpleRNN({.units = 3}))});
}

Model cells() {
  return stack({6, 4},
               {RNN(LSTMCell({.units = 5}), {.return_sequences = true}),
                RNN(StackedRNNCells({GRUCell({.units = 4}), SimpleRNNCell({.units = 3}), GRUCell({.units = 2})}),
                    {.return_sequences = true}),
                TimeDistributed(Dense({.units = 2}))});
}

Model films() {
  return stack({4, 6, 5, 2}, {ConvLSTM2D({.filters = 3, .return_sequences = true}), ConvLSTM2D({.filters = 2}),
                              Flatten(), SpectralNormalization(Dense({.units = 2}))});
}

Model attention() {
  const SymbolicTensor x = Input({.shape = {6, 8}}), context = Input({.shape = {5, 7}});
  SymbolicTensor y = Add()({x, MultiHeadAttention({.num_heads = 2, .key_dim = 3})({x, context})});
  y = Add()({y, GroupQueryAttention(
                    {.head_dim = 4, .num_query_heads = 4, .num_key_value_heads = 2, .use_causal_mask = true})({y, y})});
  y = Attention({.use_scale = true})({y, y});
  y = AdditiveAttention()({y, y});
  y = EinsumDense({.equation = "abc,cd->abd", .output_shape = {keras::kUnknown, 3}, .bias_axes = "d"})(y);
  return Model({.inputs = {x, context}, .outputs = {y}});
}

// Layers of one class, which Keras counts by their distance from the outputs and the order of the search for them, not
// in the order in which they are made or called.
Model branches() {
  const SymbolicTensor x = Input({.shape = {4}});
  const Dense last({.units = 3}), shared({.units = 4}), side({.units = 5}), first({.units = 4});
  const SymbolicTensor short_way = side(x);
  const SymbolicTensor long_way = shared(first(shared(x)));
  const SymbolicTensor sum = Concatenate()({short_way, long_way});
  return Model({.inputs = {x}, .outputs = {last(sum), Dense({.units = 2})(short_way)}});
}

Model nested() {
  const SymbolicTensor inner_x = Input({.shape = {4}});
  const Dense shared({.units = 4});
  const Model inner({.inputs = {inner_x}, .outputs = {shared(Dense({.units = 4})(inner_x))}});
  const SymbolicTensor x = Input({.shape = {4}});
  const SymbolicTensor y =
      stack({4}, {Dense({.units = 4}), stack({4}, {Dense({.units = 4}), BatchNormalization()})})(x);
  return Model({.inputs = {x}, .outputs = {Add()({inner(y), shared(x), inner(x)})}});
}

Model numbers() { return stack({5}, {Normalization(), Dense({.units = 3})}); }

Model doubles() {
  const DTypePolicyGuard policy(DTypePolicy::float64);
  return stack({5}, {Dense({.units = 3}), BatchNormalization()});
}

Model halves() {
  const DTypePolicyGuard policy(DTypePolicy::float16);
  return stack({5}, {Dense({.units = 3})});
}

Model brains() {
  const DTypePolicyGuard policy(DTypePolicy::bfloat16);
  return stack({5}, {Dense({.units = 3})});
}

Model places() {
  const SymbolicTensor x = Input({.shape = {6, 8, 3}});
  SymbolicTensor y = Cropping2D({.cropping = {{{2, 1}, {0, 3}}}})(ZeroPadding2D({.padding = {{{1, 2}, {3, 4}}}})(x));
  y = UpSampling2D({.size = {2, 3}, .interpolation = layers::Interpolation::bilinear})(y);
  y = AdaptiveMaxPooling2D({.output_size = {4, 5}})(AdaptiveAveragePooling2D({.output_size = {6, 7}})(y));
  y = Flatten()(Permute({.dims = {2, 3, 1}})(SpatialDropout2D({.rate = 0.5})(y)));
  y = UpSampling1D({.size = {3}})(Cropping1D({.cropping = {{{0, 1}}}})(RepeatVector({.n = 4})(y)));
  y = SpatialDropout1D({.rate = 0.5})(ZeroPadding1D({.padding = {{{2, 0}}}})(y));
  const SymbolicTensor product = Dot({.first_axis = 2, .second_axis = 2, .normalize = true})({y, y});
  return Model({.inputs = {x}, .outputs = {Dense({.units = 2})(y), product}});
}

Model units() {
  return stack({4, 3},
               {Masking({.mask_value = 0.5}), Identity(), LeakyReLU({.negative_slope = 0.125}), ELU({.alpha = 0.5}),
                AlphaDropout({.rate = 0.25}), GaussianDropout({.rate = 0.25}), GaussianNoise({.stddev = 0.5}),
                ActivityRegularization({.l1 = 0.25}), UnitNormalization({.axis = {1, 2}}),
                Dense({.units = 2,
                       .kernel_regularizer = keras::regularizers::L2(),
                       .bias_constraint = keras::constraints::NonNeg()})});
}

// A graph that is called twice, a chain in it, several ends.
Model inner_model() {
  const SymbolicTensor a = Input({.shape = {4}}), b = Input({.shape = {4}});
  const SymbolicTensor sum = Subtract()({a, stack({4}, {Dense({.units = 4})})(b)});
  return Model({.inputs = {a, b}, .outputs = {Dense({.units = 4})(sum), Multiply()({sum, b})}});
}

Model models_in_models() {
  const SymbolicTensor x = Input({.shape = {4}}), y = Input({.shape = {4}});
  const Model inner = inner_model();
  const std::vector<SymbolicTensor> once = inner.outputs({x, y}), twice = inner.outputs({once[1], once[0]});
  return Model({.inputs = {x, y}, .outputs = {twice[1], Dense({.units = 2})(once[0]), twice[0]}});
}

Model states() {
  const SymbolicTensor x = Input({.shape = {5, 4}});
  const std::vector<SymbolicTensor> first =
      LSTM({.units = 3, .return_sequences = true, .return_state = true}).outputs({x});
  return Model({.inputs = {x}, .outputs = {LSTM({.units = 3})({first[0], first[1], first[2]}), first[2]}});
}

Model cut() {
  const SymbolicTensor x = Input({.shape = {4}});
  const SymbolicTensor middle = Dense({.units = 5})(x);
  return Model({.inputs = {middle}, .outputs = {Dense({.units = 2})(middle)}});
}

struct Shift : LayerImpl {
  explicit Shift(double by) : LayerImpl("Shift", ""), by(by) {}
  Tensor call(const Tensor& x, const CallOptions&) const override { return x + by; }
  const double by;
};

Model own_layer() { return stack({5}, {Dense({.units = 4}), Layer(std::make_shared<Shift>(0.5))}); }

const LoadModelOptions kReadShift{.custom_layers = {{"tests>Shift", [](LayerConfig& config) {
                                                       return Layer(std::make_shared<Shift>(config.number("by")));
                                                     }}}};
const SaveModelOptions kWriteShift{
    .custom_layers = {{"Shift", {"tests>Shift", [](const Layer& layer, LayerConfig& config) {
                                   double by = dynamic_cast<const Shift&>(*layer.impl()).by;
                                   config.option("by", by);
                                 }}}}};

class TwoLayers : public ModelImpl {
 public:
  TwoLayers() : ModelImpl("TwoLayers") {}
  Tensor call(const Tensor& x, const CallOptions& options) const override { return out_(hidden_(x, options), options); }

 private:
  Dense hidden_ = add(Dense({.units = 4, .name = "hidden"}));
  Dense out_ = add(Dense({.units = 2, .name = "out"}));
};

Model own_class() {
  const Model model(std::make_shared<TwoLayers>());
  model.build({keras::kUnknown, 5});
  return model;
}

const std::map<std::string, std::function<Model()>> kModels{
    {"mlp", mlp},       {"images", images},       {"signals", signals},     {"volumes", volumes},
    {"norms", norms},   {"text", text},           {"recurrent", recurrent}, {"both_directions", both_directions},
    {"cells", cells},   {"films", films},         {"attention", attention}, {"branches", branches},
    {"nested", nested}, {"numbers", numbers},     {"doubles", doubles},     {"halves", halves},
    {"brains", brains}, {"own_class", own_class}, {"states", states},       {"models_in_models", models_in_models},
    {"cut", cut},       {"own_layer", own_layer}, {"places", places},       {"units", units},
};

std::map<std::string, Tensor> numbered(const std::vector<Tensor>& tensors) {
  std::map<std::string, Tensor> named;
  for (size_t i = 0; i < tensors.size(); ++i) named[std::to_string(i)] = tensors[i].to(torch::kDouble);
  return named;
}

std::vector<Tensor> inputs_in(const std::filesystem::path& file) {
  std::vector<Tensor> x;
  for (const auto& [number, tensor] : files::read_npz(file)) x.push_back(tensor);
  return x;
}

void go_through(const std::filesystem::path& folder, const std::string& name) {
  const std::vector<Tensor> x = inputs_in(folder / (name + ".x.npz"));
  const Model model = load_model(folder / (name + ".keras"));
  files::write_npz(folder / (name + ".file.npz"), numbered(model.predict_on_batch(x)));
  model.save(folder / (name + ".again.keras"));
  const torch::NoGradGuard no_grad;
  for (const Weight& weight : model.weights()) Tensor(weight.value).uniform_(0.1, 0.4);
  model.save(folder / (name + ".own.keras"));
  files::write_npz(folder / (name + ".own.npz"), numbered(model.predict_on_batch(x)));
}

}  // namespace

int main(int num_arguments, char** arguments) {
  const std::filesystem::path folder = arguments[1];
  if (num_arguments > 2) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string file = entry.path().filename(), name = file.substr(0, file.find('.'));
      if (file == name + ".x.npz") go_through(folder, name);
    }
    return 0;
  }
  for (const auto& [name, make] : kModels) {
    const Model model = make();
    const std::vector<Tensor> x = inputs_in(folder / (name + ".x.npz"));
    model.load_weights(folder / (name + ".weights.h5"));
    files::write_npz(folder / (name + ".y.npz"), numbered(model.predict_on_batch(x)));
    model.save_weights(folder / (name + ".again.weights.h5"));

    for (const std::string ending : {"legacy", "fixed", "saved"})
      if (const auto legacy = folder / (name + '.' + ending + ".h5"); std::filesystem::exists(legacy)) {
        const Model from_legacy = make();
        from_legacy.load_weights(legacy);
        files::write_npz(folder / (name + '.' + ending + ".npz"), numbered(from_legacy.predict_on_batch(x)));
      }

    const auto file = folder / (name + ".keras");
    const bool is_whole = std::filesystem::exists(file);
    if (is_whole) {
      const Model whole = load_model(file, kReadShift);
      files::write_npz(folder / (name + ".file.npz"), numbered(whole.predict_on_batch(x)));
      whole.save(folder / (name + ".again.keras"), kWriteShift);
    }

    const Model own = make();
    const torch::NoGradGuard no_grad;
    for (const Weight& weight : own.weights()) Tensor(weight.value).uniform_(0.1, 0.4);
    own.save_weights(folder / (name + ".own.weights.h5"));
    if (is_whole) own.save(folder / (name + ".own.keras"), kWriteShift);
    files::write_npz(folder / (name + ".own.npz"), numbered(own.predict_on_batch(x)));
  }
}
