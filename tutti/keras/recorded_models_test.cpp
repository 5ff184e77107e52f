// Models and trainings that dice make up, recorded and eager: every number that a user can see has the same bits.
// TUTTI_RECORDED_MODELS=500 makes up as many, TUTTI_RECORDED_MODEL=301 repeats one.
#include <ATen/TensorOperators.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include "tests/support/collected_warnings.h"
#include "tests/support/dice.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/callbacks/early_stopping.h"
#include "tutti/keras/callbacks/lambda_callback.h"
#include "tutti/keras/callbacks/learning_rate_scheduler.h"
#include "tutti/keras/callbacks/reduce_lr_on_plateau.h"
#include "tutti/keras/functional.h"
#include "tutti/keras/layers/activations/activation.h"
#include "tutti/keras/layers/activations/relu.h"
#include "tutti/keras/layers/attention/attention.h"
#include "tutti/keras/layers/attention/multi_head_attention.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/convolutional/conv_transpose.h"
#include "tutti/keras/layers/convolutional/depthwise_conv.h"
#include "tutti/keras/layers/convolutional/separable_conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/einsum_dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/core/lambda.h"
#include "tutti/keras/layers/core/masking.h"
#include "tutti/keras/layers/merging/concatenate.h"
#include "tutti/keras/layers/merging/merge.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/normalization/group_normalization.h"
#include "tutti/keras/layers/normalization/layer_normalization.h"
#include "tutti/keras/layers/normalization/spectral_normalization.h"
#include "tutti/keras/layers/pooling/global_pooling.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_brightness.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_flip.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_rotation.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/resizing.h"
#include "tutti/keras/layers/preprocessing/rescaling.h"
#include "tutti/keras/layers/recurrent/bidirectional.h"
#include "tutti/keras/layers/recurrent/conv_lstm.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/recurrent/simple_rnn.h"
#include "tutti/keras/layers/recurrent/time_distributed.h"
#include "tutti/keras/layers/regularization/activity_regularization.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/cropping.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/layers/reshaping/reshape.h"
#include "tutti/keras/layers/reshaping/up_sampling.h"
#include "tutti/keras/model.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/loss_scale_optimizer.h"
#include "tutti/keras/optimizers/multi_optimizer.h"
#include "tutti/keras/optimizers/schedules.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/recorded_steps.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras::recorded_models_test {
namespace {

using namespace layers;  // NOLINT(google-build-using-namespace): forty of them
using fuzz::Dice;

constexpr int64_t kClasses = 3;
constexpr auto kSame = Padding::same;

// What is drawn, in words, and whether something in it cannot be recorded, as docs/keras.md says. What has nothing of
// the kind may not fall back.
struct Drawn {
  explicit Drawn(uint64_t seed) : dice(seed) {}

  Dice dice;
  int replicas = static_cast<int>(dice.between(1, 2));
  std::string text = str(replicas, " replicas");
  bool takes_weights = true;  // of samples
  bool unrecordable = false;

  bool has(const char* name) const { return text.find(name) != std::string::npos; }

  // Names what is drawn.
  template <class T>
  const T& note(const char* name, const T& what) {
    text += str(' ', name);
    return what;
  }
};

activations::Activation activation(Dice& dice) {
  return dice.pick<activations::Activation>({activations::relu, activations::tanh, activations::sigmoid,
                                             activations::gelu, activations::elu, activations::linear});
}

// --- Layers that keep the number of axes.

Layer of_vectors(Drawn& d) {
  Dice& dice = d.dice;
  switch (dice.below(14)) {
    case 0: return d.note("batch_norm", BatchNormalization());
    case 1: return d.note("layer_norm", LayerNormalization());
    case 2: return d.note("dropout", Dropout({.rate = 0.3}));
    case 3: return d.note("noise", GaussianNoise({.stddev = 0.1}));
    case 4: return d.note("alpha_dropout", AlphaDropout({.rate = 0.2}));
    case 5: return d.note("prelu", PReLU());
    case 6: return d.note("activity", ActivityRegularization({.l1 = 0.01, .l2 = 0.1}));
    case 7:
      d.unrecordable = true;  // the layer writes to weights
      return d.note("spectral", SpectralNormalization(Dense({.units = 5})));
    case 8: return d.note("lambda", Lambda({.function = [](const Tensor& x) { return x.sin() + x; }}));
    case 9: return d.note("torch_dropout", Layer(torch::nn::Dropout(0.4)));
    case 10: return d.note("unit_norm", UnitNormalization());
    default: {
      DenseOptions options{.units = dice.between(2, 7), .activation = activation(dice), .use_bias = dice.chance(80)};
      if (dice.chance(40)) options.kernel_regularizer = regularizers::L2(0.01);
      if (dice.chance(20)) options.kernel_constraint = constraints::MaxNorm();
      return d.note("dense", Dense(options));
    }
  }
}

template <class RNN, class Options>
Layer recurrent(Drawn& d, const char* name) {
  Options options{.units = d.dice.between(2, 5), .return_sequences = true};
  if (d.dice.chance(20)) options.dropout = 0.3;
  if (d.dice.chance(20)) options.recurrent_dropout = 0.3;
  options.go_backwards = d.dice.chance(20);
  if (d.dice.chance(25)) return d.note(str("bidirectional ", name).c_str(), Bidirectional(RNN(options)));
  return d.note(name, RNN(options));
}

Layer of_sequences(Drawn& d) {
  Dice& dice = d.dice;
  switch (dice.below(14)) {
    case 0: return d.note("conv1d", Conv1D({.filters = 4, .padding = kSame, .activation = activation(dice)}));
    case 1: return d.note("causal", Conv1D({.filters = 3, .padding = Padding::causal, .dilation_rate = {2}}));
    case 2: return d.note("pool1d", MaxPooling1D({.padding = kSame}));
    case 3: return d.note("average1d", AveragePooling1D({.padding = kSame}));
    case 4: return d.note("dropout1d", SpatialDropout1D({.rate = 0.3}));
    case 5: return d.note("time_distributed", TimeDistributed(Dense({.units = 4, .activation = activation(dice)})));
    case 6: return d.note("zero_padding", ZeroPadding1D());
    case 7: return d.note("einsum", EinsumDense({.equation = "abc,cd->abd", .output_shape = {kUnknown, 4}}));
    case 8: return d.note("layer_norm", LayerNormalization());
    case 9: return d.note("transpose1d", Conv1DTranspose({.filters = 3, .strides = {2}}));
    case 10: return recurrent<SimpleRNN, SimpleRNNOptions>(d, "simple_rnn");
    case 11: return recurrent<GRU, GRUOptions>(d, "gru");
    default: return recurrent<LSTM, LSTMOptions>(d, "lstm");
  }
}

Layer of_images(Drawn& d) {
  Dice& dice = d.dice;
  switch (dice.below(14)) {
    case 0: return d.note("pool2d", MaxPooling2D({.padding = kSame}));
    case 1: return d.note("average2d", AveragePooling2D({.padding = kSame}));
    case 2: return d.note("batch_norm", BatchNormalization());
    case 3: return d.note("instance_norm", GroupNormalization({.groups = -1}));
    case 4: return d.note("depthwise", DepthwiseConv2D({.padding = kSame}));
    case 5: return d.note("separable", SeparableConv2D({.filters = 4, .padding = kSame}));
    case 6: return d.note("up_sampling", UpSampling2D());
    case 7: return d.note("dropout2d", SpatialDropout2D({.rate = 0.3}));
    case 8: return d.note("flip", RandomFlip({}));
    case 9: return d.note("rotation", RandomRotation({.factor = 0.1}));
    case 10: return d.note("resizing", Resizing({.height = 5, .width = 6}));
    case 11: return d.note("rescaling", Rescaling({.scale = 0.5, .offset = 0.1}));
    default:
      return d.note("conv2d", Conv2D({.filters = dice.between(2, 6),
                                      .strides = {dice.between(1, 2), 1},
                                      .padding = kSame,
                                      .activation = activation(dice)}));
  }
}

// --- Models.

enum class InputKind { vectors, sequences, ids, images };

Shape sample_shape(InputKind kind) {
  switch (kind) {
    case InputKind::vectors: return {6};
    case InputKind::sequences: return {7, 4};
    case InputKind::ids: return {7};
    case InputKind::images: return {8, 7, 3};
  }
  return {};
}

// A graph with layers beside each other here and there.
Model make_model(Drawn& d, InputKind kind, const activations::Activation& last) {
  const SymbolicTensor input = Input({.shape = sample_shape(kind)});
  SymbolicTensor x = input;
  if (kind == InputKind::ids) {
    const bool masks = d.takes_weights && d.dice.chance(40);
    x = d.note(masks ? "masking embedding" : "embedding",
               Embedding({.input_dim = 9, .output_dim = 4, .mask_zero = masks}))(x);
  }
  for (int64_t left = d.dice.between(1, 4); left > 0; --left) {
    const auto layer = [&] {
      return kind == InputKind::vectors ? of_vectors(d) : kind == InputKind::images ? of_images(d) : of_sequences(d);
    };
    const SymbolicTensor y = layer()(x);
    if (y.shape() == x.shape() && d.dice.chance(30))
      x = d.note("add", Add())({x, y});
    else if (kind != InputKind::images && kind != InputKind::vectors && d.dice.chance(15))
      x = d.note("attention", MultiHeadAttention({.num_heads = 2, .key_dim = 3, .dropout = 0.1}))({y, y});
    else
      x = y;
  }
  if (kind == InputKind::images)
    x = d.dice.chance(50) ? Flatten()(x) : GlobalAveragePooling2D()(x);
  else if (kind != InputKind::vectors)
    x = d.dice.chance(50) ? LSTM({.units = 4})(x) : GlobalMaxPooling1D()(x);
  return Model({.inputs = {input}, .outputs = {Dense({.units = kClasses, .activation = last})(x)}});
}

optimizers::Optimizer make_optimizer(Drawn& d) {
  Dice& dice = d.dice;
  using namespace optimizers;  // NOLINT(google-build-using-namespace)
  switch (dice.below(8)) {
    case 0: return d.note("sgd ema", SGD({.learning_rate = 0.05, .momentum = 0.9, .use_ema = true}));
    case 1: return d.note("sgd accumulating", SGD({.learning_rate = 0.1, .gradient_accumulation_steps = 2}));
    case 2: return d.note("adam clipped", Adam({.learning_rate = 0.01, .global_clipnorm = 0.5}));
    case 3: return d.note("scaled", LossScaleOptimizer(SGD(), {.initial_scale = 8, .dynamic_growth_steps = 2}));
    case 4:
      return d.note("two", MultiOptimizer({{[](const Tensor& w) { return w.dim() < 2; }, SGD({.learning_rate = 0.1})}},
                                          Adam({.learning_rate = 0.02})));
    case 5:
      return d.note("scheduled", Adam({.learning_rate = schedules::ExponentialDecay(
                                           {.initial_learning_rate = 0.05, .decay_steps = 3, .decay_rate = 0.8})}));
    default: {
      const char* const name = dice.pick({"adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "ftrl", "lamb",
                                          "lion", "muon", "nadam", "rmsprop", "schedulefreeadamw", "sgd"});
      return d.note(name, Optimizer(name));
    }
  }
}

struct Task {
  bool one_hot;
  const char* loss;
  activations::Activation last;
};

Task make_task(Drawn& d) {
  const bool one_hot = d.dice.chance(60);
  const char* const loss =
      one_hot ? d.dice.pick({"categorical_crossentropy", "categorical_focal_crossentropy", "kl_divergence", "dice",
                             "tversky", "mse", "mae", "huber", "logcosh", "cosine_similarity", "poisson",
                             "binary_crossentropy", "binary_focal_crossentropy", "categorical_hinge", "msle", "mape"})
              : d.dice.pick(
                    {"sparse_categorical_crossentropy", "sparse_categorical_crossentropy", "crossentropy", "circle"});
  d.note(loss, loss);
  d.takes_weights = !d.has("dice") && !d.has("tversky") && !d.has("circle");
  return {one_hot, loss, activations::softmax};
}

std::vector<metrics::Metric> make_metrics(Drawn& d, bool one_hot) {
  std::vector<metrics::Metric> metrics;
  std::set<std::string> names;
  for (int64_t left = d.dice.below(4); left > 0; --left) {
    const char* const name =
        one_hot ? d.dice.pick({"accuracy", "auc", "mae", "mse", "cosine_similarity", "f1_score", "precision", "recall",
                               "top_k_categorical_accuracy", "r2_score", "kl_divergence", "categorical_crossentropy",
                               "hinge", "pearson_correlation", "concordance_correlation", "true_positives",
                               "root_mean_squared_error", "poisson", "logcosh"})
                : d.dice.pick({"accuracy", "sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy",
                               "sparse_categorical_crossentropy"});
    if (names.insert(name).second) metrics.emplace_back(d.note(name, name));
  }
  return metrics;
}

// --- Callbacks that change what steps do.

callbacks::Callback on_epoch(std::function<void(const Model&, int64_t)> change) {
  return callbacks::LambdaCallback(
      {.on_epoch_begin = [change = std::move(change)](callbacks::TrainingState& state, int64_t epoch) {
        change(state.model, epoch);
      }});
}

callbacks::Callback make_callback(Drawn& d, bool has_schedule) {
  switch (d.dice.below(8)) {
    case 0:
      if (!has_schedule)
        return d.note("rate",
                      callbacks::LearningRateScheduler([](int64_t epoch, double) { return 0.1 / (1.0 + epoch); }));
      [[fallthrough]];
    case 1: {
      const int64_t layer = d.dice.below(4), at = d.dice.between(1, 2);
      return d.note("freeze", on_epoch([=](const Model& model, int64_t epoch) {
                      const auto& layers = model.layers();
                      if (epoch > 0)
                        layers[static_cast<size_t>(layer) % (layers.size() - 1)].set_trainable(epoch != at);
                    }));
    }
    case 2:
      return d.note("set_weights", on_epoch([](const Model& model, int64_t) {
                      if (!model.built()) return;
                      std::vector<Tensor> weights = model.get_weights();
                      for (Tensor& weight : weights)
                        if (weight.is_floating_point()) weight.mul_(0.9);
                      model.set_weights(weights);
                    }));
    case 3: return d.note("seed", on_epoch([](const Model&, int64_t epoch) { set_random_seed(7 + epoch % 2); }));
    case 4:
      if (!has_schedule)
        return d.note("plateau", callbacks::ReduceLROnPlateau({.monitor = "loss", .factor = 0.5, .patience = 1}));
      [[fallthrough]];
    case 5: return d.note("stopping", callbacks::EarlyStopping({.monitor = "loss", .restore_best_weights = true}));
    default:
      return d.note("batch rate",
                    callbacks::LambdaCallback(
                        {.on_train_batch_end = [](callbacks::TrainingState& state, int64_t batch, const RunningLogs&) {
                          const auto& optimizer = state.model.model().optimizer();
                          if (batch % 2 == 1 && !optimizer.has_schedule())
                            optimizer.set_learning_rate(optimizer.learning_rate() * 0.9);
                        }}));
  }
}

// --- A training and what is seen of it.

struct Seen {
  std::map<std::string, std::vector<double>> numbers;  // histories, logs
  std::vector<Tensor> tensors;                         // predictions, weights, the optimizer's state, random numbers
  std::vector<std::string> warnings;
  std::string drawn;
  bool unrecordable;
  std::string error;
};

void note(Seen& seen, const std::string& name, const std::map<std::string, std::vector<double>>& numbers) {
  for (const auto& [key, values] : numbers) seen.numbers[str(name, ' ', key)] = values;
}

void note(Seen& seen, const std::string& name, const Logs& logs) {
  for (const auto& [key, value] : logs) seen.numbers[str(name, ' ', key)] = {value};
}

FitOptions make_fit_options(Drawn& d, bool has_schedule) {
  FitOptions options{.batch_size = d.dice.between(4, 8), .epochs = d.dice.between(2, 4), .verbose = Verbose::silent};
  if (d.dice.chance(40)) options.validation_split = 0.25;
  if (d.takes_weights && d.dice.chance(20)) options.class_weight = {{0, 2.0}, {2, 0.5}};
  for (int64_t left = d.dice.below(3); left > 0; --left) options.callbacks.push_back(make_callback(d, has_schedule));
  return options;
}

void train(Drawn& d, bool eagerly, Seen& seen) {
  set_random_seed(d.dice.below(1000));
  const auto kind =
      d.dice.pick({InputKind::vectors, InputKind::vectors, InputKind::sequences, InputKind::ids, InputKind::images});
  const int64_t num_samples = d.dice.between(17, 26);
  MirroredStrategy strategy({.devices = configure_logical_cpus(d.replicas)});
  const DTypePolicyGuard policy(d.dice.chance(10)   ? DTypePolicy::mixed_bfloat16
                                : d.dice.chance(10) ? DTypePolicy::float64
                                                    : DTypePolicy::of_weights);
  const Task task = make_task(d);
  const Model model = strategy.build([&] { return make_model(d, kind, task.last); });
  const optimizers::Optimizer optimizer = make_optimizer(d);
  model.compile({.optimizer = optimizer,
                 .loss = losses::Loss(task.loss),
                 .metrics = make_metrics(d, task.one_hot),
                 .weighted_metrics = make_metrics(d, task.one_hot),
                 .steps_per_execution = d.dice.pick({1, 1, 2, 3}),
                 .run_eagerly = eagerly});
  Shape shape = sample_shape(kind);
  shape.insert(shape.begin(), num_samples);
  const Tensor x = kind == InputKind::ids ? at::randint(9, shape, at::kLong) : at::randn(shape);
  const Tensor classes = at::randint(kClasses, {num_samples}, at::kLong);
  const Tensor y = task.one_hot ? at::one_hot(classes, kClasses).to(at::kFloat) : classes;
  FitOptions options = make_fit_options(d, optimizer.has_schedule());
  d.unrecordable |= d.has("batch_norm") && d.has("set_weights");  // statistics get other memory at each epoch
  if (d.takes_weights && options.class_weight.empty() && d.dice.chance(30))
    options.sample_weight = at::rand({num_samples});

  if (d.dice.chance(30)) note(seen, "before", model.evaluate(x, y, {.batch_size = 8, .verbose = Verbose::silent}));
  note(seen, "fit", model.fit(x, y, options).history);
  note(seen, "evaluate", model.evaluate(x, y, {.batch_size = 8, .verbose = Verbose::silent}));
  seen.tensors.push_back(model.predict(x, {.batch_size = 7}));
  if (d.dice.chance(40)) note(seen, "again", model.fit(x, y, options).history);
  for (const Tensor& weight : model.get_weights()) seen.tensors.push_back(weight);
  for (const Tensor& state : optimizer.impl()->state()) seen.tensors.push_back(gather(state).clone());
  note(seen, "optimizer", Logs{{"iterations", optimizer.iterations()}});
  seen.tensors.push_back(at::rand({3}));
}

Seen run(uint64_t seed, bool eagerly) {
  const CollectedWarnings warnings;
  Seen seen;
  Drawn drawn(seed);
  try {
    train(drawn, eagerly, seen);
  } catch (const std::exception& error) {
    seen.error = error.what();
  }
  seen.warnings = warnings.lines();
  seen.drawn = drawn.text;
  seen.unrecordable = drawn.unrecordable;
  return seen;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         (x.numel() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

void expect_the_same(const Seen& recorded, const Seen& eager) {
  EXPECT_EQ(eager.error, "");
  EXPECT_EQ(recorded.error, eager.error);
  ASSERT_EQ(recorded.numbers.size(), eager.numbers.size());
  for (const auto& [name, values] : eager.numbers)
    EXPECT_TRUE(same_bits(recorded.numbers.at(name), values))
        << name << ": " << testing::PrintToString(recorded.numbers.at(name)) << ", eagerly "
        << testing::PrintToString(values);
  ASSERT_EQ(recorded.tensors.size(), eager.tensors.size());
  for (size_t i = 0; i < eager.tensors.size(); ++i)
    EXPECT_TRUE(same_bits(recorded.tensors[i], eager.tensors[i])) << "tensor " << i;
  if (!recorded.unrecordable) {
    EXPECT_EQ(recorded.warnings, eager.warnings);
  }
}

std::optional<int> asked_for(const char* variable) {
  const char* const text = std::getenv(variable);
  return text ? std::optional(std::atoi(text)) : std::nullopt;
}

TEST(RecordedModels, GiveEagersBits) {
  const std::optional<int> only = asked_for("TUTTI_RECORDED_MODEL");
  const int first = only.value_or(0), last = only.value_or(asked_for("TUTTI_RECORDED_MODELS").value_or(80) - 1);
  for (int seed = first; seed <= last; ++seed) {
    const Seen eager = run(static_cast<uint64_t>(seed), true);
    SCOPED_TRACE(str("model ", seed, ":", eager.drawn));
    expect_the_same(run(static_cast<uint64_t>(seed), false), eager);
  }
}

}  // namespace
}  // namespace tutti::keras::recorded_models_test
