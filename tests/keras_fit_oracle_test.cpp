// What Keras returned for fit, evaluate and predict (tests/oracle/keras_fit.json), case by case.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>

#include "tests/support/oracle.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/layers/activations/activation.h"
#include "tutti/keras/layers/activations/relu.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/normalization/layer_normalization.h"
#include "tutti/keras/layers/pooling/global_pooling.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/losses/categorical_crossentropy.h"
#include "tutti/keras/losses/hinge.h"
#include "tutti/keras/losses/huber.h"
#include "tutti/keras/losses/log_cosh.h"
#include "tutti/keras/losses/mean_absolute_error.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/losses/mean_squared_logarithmic_error.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/metrics/regression.h"
#include "tutti/keras/optimizers/adadelta.h"
#include "tutti/keras/optimizers/adafactor.h"
#include "tutti/keras/optimizers/adagrad.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/adamax.h"
#include "tutti/keras/optimizers/ftrl.h"
#include "tutti/keras/optimizers/lion.h"
#include "tutti/keras/optimizers/nadam.h"
#include "tutti/keras/optimizers/rmsprop.h"
#include "tutti/keras/optimizers/schedules.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras {
namespace {

using oracle::Json;

// Thrown for what these cases do not have; the text says what.
struct NotSupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

layers::Size2D square(const Json& json, const char* key, int64_t fallback) {
  const int64_t size = json.value(key, fallback);
  return {size, size};
}

layers::Padding padding(const Json& json) {
  return json.value("padding", "valid") == "same" ? layers::Padding::same : layers::Padding::valid;
}

activations::Activation activation(const Json& json) {
  const std::string name = json.value("activation", "linear");
  for (const auto& known : {activations::linear, activations::relu, activations::tanh, activations::gelu,
                            activations::sigmoid, activations::softmax, activations::elu, activations::selu})
    if (name == known.name) return known;
  throw NotSupported("activation " + name);
}

std::optional<regularizers::Regularizer> regularizer(const Json& json, const std::string& weight) {
  const double l1 = json.value(weight + "_l1", 0.0);
  const double l2 = json.value(weight + "_l2", 0.0);
  if (l1 == 0 && l2 == 0) return std::nullopt;
  return regularizers::L1L2({.l1 = l1, .l2 = l2});
}

layers::Layer layer(const Json& json) {
  const std::string type = json.at("layer");
  if (type == "Dense")
    return layers::Dense({.units = json.at("units"),
                          .activation = activation(json),
                          .use_bias = json.value("use_bias", true),
                          .kernel_regularizer = regularizer(json, "kernel"),
                          .bias_regularizer = regularizer(json, "bias")});
  if (type == "Embedding")
    return layers::Embedding({.input_dim = json.at("vocabulary"), .output_dim = json.at("width")});
  if (type == "Conv2D")
    return layers::Conv2D({.filters = json.at("filters"),
                           .kernel_size = square(json, "kernel", 3),
                           .strides = square(json, "strides", 1),
                           .padding = padding(json),
                           .activation = activation(json)});
  if (type == "MaxPooling2D")
    return layers::MaxPooling2D({.pool_size = square(json, "pool", 2), .padding = padding(json)});
  if (type == "GlobalAveragePooling1D") return layers::GlobalAveragePooling1D();
  if (type == "BatchNormalization")
    return layers::BatchNormalization({.momentum = json.value("momentum", 0.99),
                                       .epsilon = json.value("epsilon", 1e-3),
                                       .synchronized = json.value("synchronized", false)});
  if (type == "LayerNormalization") return layers::LayerNormalization({.epsilon = json.value("epsilon", 1e-3)});
  if (type == "Flatten") return layers::Flatten();
  if (type == "Dropout") return layers::Dropout({.rate = json.at("rate")});
  if (type == "ReLU") return layers::ReLU();
  throw NotSupported("layer " + type);
}

Sequential model(const Json& json) {
  std::vector<layers::Layer> chain;
  for (const Json& description : json.at("layers")) chain.push_back(layer(description));
  const Sequential model(chain);
  Shape shape = json.at("input_shape");
  shape.insert(shape.begin(), kUnknown);
  model.build(shape);
  return model;
}

std::optional<double> optional_number(const Json& json, const char* key) {
  return json.contains(key) && !json.at(key).is_null() ? std::optional<double>(json.at(key)) : std::nullopt;
}

optimizers::LearningRate learning_rate(const Json& json) {
  if (json.is_number()) return json.get<double>();
  const std::string type = json.at("schedule");
  if (type == "ExponentialDecay")
    return optimizers::schedules::ExponentialDecay({.initial_learning_rate = json.at("initial_learning_rate"),
                                                    .decay_steps = json.at("decay_steps"),
                                                    .decay_rate = json.at("decay_rate"),
                                                    .staircase = json.value("staircase", false)});
  if (type == "CosineDecay")
    return optimizers::schedules::CosineDecay({.initial_learning_rate = json.at("initial_learning_rate"),
                                               .decay_steps = json.at("decay_steps"),
                                               .alpha = json.value("alpha", 0.0)});
  throw NotSupported("schedule " + type);
}

// Options with the fields that all optimizers have, the others left to `take_own`, which gets a function that sets a
// field to what the case has under a name.
template <class Options, class TakeOwn>
Options optimizer_options(const Json& json, TakeOwn take_own) {
  Options options;
  const auto take = [&](auto& field, const char* name) { field = json.at(name).get<std::decay_t<decltype(field)>>(); };
  const auto take_optional = [&]<class T>(std::optional<T>& field, const char* name) {
    if (!json.at(name).is_null()) field = json.at(name).get<T>();
  };
  options.learning_rate = learning_rate(json.at("learning_rate"));
  take_optional(options.weight_decay, "weight_decay");
  take_optional(options.clipnorm, "clipnorm");
  take_optional(options.global_clipnorm, "global_clipnorm");
  take_optional(options.clipvalue, "clipvalue");
  take(options.use_ema, "use_ema");
  take(options.ema_momentum, "ema_momentum");
  take_optional(options.ema_overwrite_frequency, "ema_overwrite_frequency");
  take_optional(options.loss_scale_factor, "loss_scale_factor");
  take_optional(options.gradient_accumulation_steps, "gradient_accumulation_steps");
  take_own(options, take);
  return options;
}

// With the betas, and an epsilon where there is one.
template <class Options>
Options options_of_moments(const Json& json) {
  return optimizer_options<Options>(json, [](auto& options, auto take) {
    take(options.beta_1, "beta_1");
    take(options.beta_2, "beta_2");
    if constexpr (requires { options.epsilon; }) take(options.epsilon, "epsilon");
    if constexpr (requires { options.amsgrad; }) take(options.amsgrad, "amsgrad");
  });
}

optimizers::Ftrl ftrl(const Json& json) {
  return optimizers::Ftrl(optimizer_options<optimizers::FtrlOptions>(json, [](auto& options, auto take) {
    take(options.learning_rate_power, "learning_rate_power");
    take(options.initial_accumulator_value, "initial_accumulator_value");
    take(options.l1_regularization_strength, "l1_regularization_strength");
    take(options.l2_regularization_strength, "l2_regularization_strength");
    take(options.l2_shrinkage_regularization_strength, "l2_shrinkage_regularization_strength");
    take(options.beta, "beta");
  }));
}

optimizers::RMSprop rmsprop(const Json& json) {
  return optimizers::RMSprop(optimizer_options<optimizers::RMSpropOptions>(json, [](auto& options, auto take) {
    take(options.rho, "rho");
    take(options.momentum, "momentum");
    take(options.epsilon, "epsilon");
    take(options.centered, "centered");
  }));
}

// Its own hyper-parameters tell what an optimizer is, but for two that have the same.
optimizers::Optimizer optimizer(const Json& json) {
  const auto has = [&](const char* name) { return json.contains(name); };
  const std::string name = json.at("name");
  if (has("nesterov"))
    return optimizers::SGD(optimizer_options<optimizers::SGDOptions>(json, [](auto& options, auto take) {
      take(options.momentum, "momentum");
      take(options.nesterov, "nesterov");
    }));
  if (has("amsgrad")) return optimizers::Adam(options_of_moments<optimizers::AdamOptions>(json));
  if (has("centered")) return rmsprop(json);
  if (has("learning_rate_power")) return ftrl(json);
  if (has("rho"))
    return optimizers::Adadelta(optimizer_options<optimizers::AdadeltaOptions>(json, [](auto& options, auto take) {
      take(options.rho, "rho");
      take(options.epsilon, "epsilon");
    }));
  if (has("initial_accumulator_value"))
    return optimizers::Adagrad(optimizer_options<optimizers::AdagradOptions>(json, [](auto& options, auto take) {
      take(options.initial_accumulator_value, "initial_accumulator_value");
      take(options.epsilon, "epsilon");
    }));
  if (has("beta_2_decay"))  // its relative_step changes nothing
    return optimizers::Adafactor(optimizer_options<optimizers::AdafactorOptions>(json, [](auto& options, auto take) {
      take(options.beta_2_decay, "beta_2_decay");
      take(options.epsilon_1, "epsilon_1");
      take(options.epsilon_2, "epsilon_2");
      take(options.clip_threshold, "clip_threshold");
    }));
  if (name.starts_with("adamax")) return optimizers::Adamax(options_of_moments<optimizers::AdamaxOptions>(json));
  if (name.starts_with("nadam")) return optimizers::Nadam(options_of_moments<optimizers::NadamOptions>(json));
  if (has("beta_1")) return optimizers::Lion(options_of_moments<optimizers::LionOptions>(json));
  throw NotSupported("optimizer " + name);
}

losses::Loss loss(const std::string& name) {
  if (name == "mse") return losses::MeanSquaredError();
  if (name == "mse_sum") return losses::MeanSquaredError({.reduction = Reduction::sum});
  if (name == "mae") return losses::MeanAbsoluteError();
  if (name == "sparse_ce_logits") return losses::SparseCategoricalCrossentropy({.from_logits = true});
  if (name == "ce_logits") return losses::CategoricalCrossentropy({.from_logits = true, .label_smoothing = 0.05});
  if (name == "bce_logits") return losses::BinaryCrossentropy({.from_logits = true});
  if (name == "bce_logits_smooth") return losses::BinaryCrossentropy({.from_logits = true, .label_smoothing = 0.1});
  if (name == "huber") return losses::Huber({.delta = 0.7});
  if (name == "hinge") return losses::Hinge();
  if (name == "logcosh") return losses::LogCosh();
  if (name == "poisson_like_msle") return losses::MeanSquaredLogarithmicError();
  throw NotSupported("loss " + name);
}

metrics::Metric metric(const std::string& name) {
  if (name == "mae") return metrics::MeanAbsoluteError({.name = name});
  if (name == "sparse_categorical_accuracy") return metrics::SparseCategoricalAccuracy();
  throw NotSupported("metric " + name);
}

FitOptions fit_options(const Json& test, const Json& data) {
  FitOptions options{
      .batch_size = test.at("global_batch"), .epochs = test.at("epochs"), .verbose = Verbose::silent, .shuffle = false};
  if (test.at("use_sample_weight").get<bool>()) options.sample_weight = oracle::tensor(data.at("sample_weight"));
  if (!test.at("class_weight").is_null())
    for (const auto& [label, weight] : test.at("class_weight").items())
      options.class_weight[std::stoll(label)] = weight;
  return options;
}

// The optimizer's setting; a case that only names it has that of the other cases, or of those of the name before
// "_accumulate", whose number says how many gradients make one update.
Json optimizer_setting(const Json& document, const Json& test) {
  const std::string name = test.at("optimizer").at("name");
  const size_t accumulate = name.find("_accumulate");
  for (const Json& other : document.at("cases")) {
    if (other.at("optimizer").at("name") != name.substr(0, accumulate) || other.at("optimizer").size() == 1) continue;
    Json setting = other.at("optimizer");
    if (accumulate != std::string::npos)
      setting["gradient_accumulation_steps"] = std::stoi(name.substr(accumulate + std::string("_accumulate").size()));
    return setting;
  }
  throw NotSupported("optimizer " + name);
}

// What a case observes.
struct Results {
  History history;
  Logs evaluation;
  Tensor predictions;
  std::vector<Tensor> weights;
  int64_t iterations = 0;
};

Results train(const Json& document, const Json& test, Strategy& strategy) {
  const std::string name = test.at("model");
  const auto trainer =
      optimizer(test.at("optimizer").size() > 1 ? test.at("optimizer") : optimizer_setting(document, test));
  const Sequential trained = strategy.build([&] {
    const Sequential built = model(document.at("models").at(name));
    std::vector<metrics::Metric> compiled_metrics;
    for (const Json& metric_name : test.at("metrics")) compiled_metrics.push_back(metric(metric_name));
    built.compile({.optimizer = trainer, .loss = loss(test.at("loss")), .metrics = compiled_metrics});
    return built;
  });
  std::vector<Tensor> initial;
  for (const Json& weight : document.at("initial_weights").at(name)) initial.push_back(oracle::tensor(weight));
  trained.set_weights(initial);

  const Json& data = document.at("datasets").at(test.at("data").get<std::string>());
  const Tensor x = oracle::tensor(data.at("x"));
  const Tensor y = oracle::tensor(data.at("y"));
  Results results;
  results.history = trained.fit(x, y, fit_options(test, data));
  results.evaluation = trained.evaluate(x, y, {.batch_size = test.at("global_batch"), .verbose = Verbose::silent});
  results.predictions = trained.predict(x.slice(0, 0, 6));
  results.weights = trained.get_weights();
  results.iterations = trainer.iterations();
  return results;
}

// A model for each replica, all with the same trained weights, on one device: what train() should come to where a layer
// normalizes by the statistics of each replica's shard, of which each replica keeps moving ones of its own.
struct ShardedModel {
  std::vector<Sequential> replicas;
  losses::Loss loss;
  std::vector<metrics::Metric> metrics;
  optimizers::Optimizer trainer;

  Tensor shard(const Tensor& batch, size_t replica) const {
    const auto num = static_cast<int64_t>(replicas.size()), r = static_cast<int64_t>(replica);
    const int64_t size = (batch.size(0) + num - 1) / num;
    return batch.slice(0, r * size, (r + 1) * size);
  }

  Tensor predict(const Tensor& x) const {
    std::vector<Tensor> outputs;
    for (size_t r = 0; r < replicas.size(); ++r) outputs.push_back(replicas[r](shard(x, r)));
    return at::cat(outputs);
  }

  // Returns the mean loss over the global batch; in training, after an update by it.
  double step(const Tensor& x, const Tensor& y, bool training) const {
    double total = 0;
    std::vector<Tensor> sums;
    for (size_t r = 0; r < replicas.size(); ++r) {
      const Tensor predictions = replicas[r](shard(x, r), {.training = training});
      Tensor value = loss.share(shard(y, r), predictions, {}, x.size(0));
      for (const Tensor& penalty : replicas[r].losses()) value = value + penalty / static_cast<double>(replicas.size());
      total += value.item<double>();
      for (const metrics::Metric& metric : metrics) metric.update_state(shard(y, r), predictions.detach());
      const std::vector<Tensor> own = gradients(value, replicas[r].trainable_variables());
      for (size_t i = 0; i < own.size(); ++i) r == 0 ? sums.push_back(own[i]) : void(sums[i].add_(own[i]));
    }
    if (training) update(sums);
    return total;
  }

  void update(const std::vector<Tensor>& sums) const {
    trainer.apply_gradients(sums, replicas[0].trainable_variables());
    const c10::NoGradGuard no_grad;
    for (const Sequential& replica : replicas)
      for (size_t i = 0; i < sums.size(); ++i)
        replica.trainable_variables()[i].copy_(replicas[0].trainable_variables()[i]);
  }

  Logs pass(const Tensor& x, const Tensor& y, int64_t global_batch, bool training) const {
    for (const metrics::Metric& metric : metrics) metric.reset_state();
    double total = 0;
    for (int64_t start = 0; start < x.size(0); start += global_batch) {
      const Tensor batch = x.slice(0, start, start + global_batch);
      const double mean = step(batch, y.slice(0, start, start + global_batch), training);
      total += mean * static_cast<double>(batch.size(0));
    }
    Logs logs{{"loss", total / static_cast<double>(x.size(0))}};
    for (const metrics::Metric& metric : metrics) logs[metric.name()] = metric.result().item<double>();
    return logs;
  }
};

Results train_in_shards(const Json& document, const Json& test) {
  if (test.at("use_sample_weight").get<bool>() || !test.at("class_weight").is_null())
    throw NotSupported("weights with statistics of shards");
  const std::string name = test.at("model");
  ShardedModel sharded{
      .replicas = {},
      .loss = loss(test.at("loss")),
      .metrics = {},
      .trainer = optimizer(test.at("optimizer").size() > 1 ? test.at("optimizer") : optimizer_setting(document, test))};
  for (const Json& metric_name : test.at("metrics")) sharded.metrics.push_back(metric(metric_name));
  std::vector<Tensor> initial;
  for (const Json& weight : document.at("initial_weights").at(name)) initial.push_back(oracle::tensor(weight));
  for (int r = 0; r < test.at("replicas"); ++r) {
    sharded.replicas.push_back(model(document.at("models").at(name)));
    sharded.replicas.back().set_weights(initial);
  }
  const Json& data = document.at("datasets").at(test.at("data").get<std::string>());
  const Tensor x = oracle::tensor(data.at("x")), y = oracle::tensor(data.at("y"));
  Results results;
  for (int epoch = 0; epoch < test.at("epochs"); ++epoch)
    for (const auto& [log, value] : sharded.pass(x, y, test.at("global_batch"), /*training=*/true))
      results.history.history[log].push_back(value);
  results.evaluation = sharded.pass(x, y, test.at("global_batch"), /*training=*/false);
  results.predictions = sharded.predict(x.slice(0, 0, 6));
  results.weights = sharded.replicas[0].get_weights();
  results.iterations = sharded.trainer.iterations();
  return results;
}

Results recorded(const Json& expected) {
  Results results;
  results.history.history = expected.at("epoch_logs");
  results.evaluation = expected.at("evaluate");
  results.predictions = oracle::tensor(expected.at("predict"));
  for (const Json& weight : expected.at("weights")) results.weights.push_back(oracle::tensor(weight));
  results.iterations = expected.at("iterations");
  return results;
}

void expect_near(double actual, double expected, double tolerance, const std::string& what) {
  EXPECT_NEAR(actual, expected, tolerance + 1e-4 * std::abs(expected)) << what;
}

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(at::allclose(actual, expected, 1e-4, tolerance)) << what << ":\n" << actual << "\nis not\n" << expected;
}

// A bias whose layer's output is normalized over the batch has the gradient 0, and an adaptive optimizer makes of
// whatever rounding leaves of it, which differs from processor to processor, up to a whole step. `moved` is the most
// that all steps together move that bias; the weights beside it and the predictions see a tenth of a step of it.
struct Tolerances {
  double usual = 1e-4;
  std::optional<size_t> noisy_weight = {};
  double moved = 0;
};

Tolerances tolerances(const Json& document, const Json& test, int64_t iterations) {
  const Json &layers = document.at("models").at(test.at("model").get<std::string>()).at("layers"),
             &optimizer = test.at("optimizer");
  if (!optimizer.contains("epsilon")) return {};
  for (size_t i = 1; i < layers.size(); ++i)
    if (layers[i].at("layer") == "BatchNormalization" && layers[i - 1].contains("units")) {
      const double rate = optimizer.at("learning_rate");
      EXPECT_EQ(i, 1) << "the noisy bias is the second weight of the first layer";
      return {.usual = 0.1 * rate, .noisy_weight = 1, .moved = rate * static_cast<double>(iterations)};
    }
  return {};
}

void expect_near(const Results& actual, const Results& expected, const Tolerances& tolerances) {
  const double tolerance = tolerances.usual;
  for (const auto& [name, values] : expected.history.history)
    for (size_t epoch = 0; epoch < values.size(); ++epoch)
      expect_near(actual.history.history.at(name).at(epoch), values[epoch], tolerance, name);
  for (const auto& [name, value] : expected.evaluation)
    expect_near(actual.evaluation.at(name), value, tolerance, "evaluate " + name);
  expect_near(actual.predictions, expected.predictions, tolerance, "predict");
  ASSERT_EQ(actual.weights.size(), expected.weights.size());
  for (size_t i = 0; i < actual.weights.size(); ++i)
    expect_near(actual.weights[i], expected.weights[i], i == tolerances.noisy_weight ? tolerances.moved : tolerance,
                "weights");
  EXPECT_EQ(actual.iterations, expected.iterations);
}

// Keras squares the gradient of each occurrence of an id in a batch by itself; ours is the square of their sum, the
// gradient of the row, as it is for any other weight.
bool squares_occurrences(const Json& test) {
  const Json& optimizer = test.at("optimizer");
  return test.at("model").get<std::string>().starts_with("embedding") &&
         (optimizer.contains("epsilon") || optimizer.contains("beta_2") || optimizer.contains("learning_rate_power"));
}

// Where Keras's numbers depend on the number of replicas, and ours, on purpose, are those of one device: clipped
// gradients, and batches that do not divide evenly (which Keras refuses if it is the first). Accumulated gradients,
// which TensorFlow's fit cannot compile, and squared gradients of embeddings are compared with one device too.
bool depends_on_replicas(const Json& test) {
  if (test.contains("error")) return true;
  const Json& optimizer = test.at("optimizer");
  if (squares_occurrences(test)) return true;
  const bool clips = optional_number(optimizer, "clipnorm") || optional_number(optimizer, "global_clipnorm") ||
                     optional_number(optimizer, "clipvalue");
  const int64_t replicas = test.at("replicas"), global_batch = test.at("global_batch"), n = test.at("n");
  return replicas > 1 && (clips || global_batch % replicas != 0 || n % global_batch != 0);
}

// Whether the model's numbers depend on how a batch is divided: then one device sees it in the same shards.
bool normalizes_shards(const Json& model) {
  return std::ranges::any_of(model.at("layers"), [](const Json& layer) {
    return layer.at("layer") == "BatchNormalization" && !layer.value("synchronized", false);
  });
}

Results on_one_device(const Json& document, const Json& test) {
  const Json& model = document.at("models").at(test.at("model").get<std::string>());
  return normalizes_shards(model) ? train_in_shards(document, test) : train(document, test, get_strategy());
}

void run(const Json& document, const Json& test) {
  const int replicas = test.at("replicas");
  MirroredStrategy mirrored({.devices = configure_logical_cpus(replicas)});
  const Results results = train(document, test, replicas == 1 ? get_strategy() : mirrored);
  expect_near(results, depends_on_replicas(test) ? on_one_device(document, test) : recorded(test.at("expected")),
              tolerances(document, test, results.iterations));
}

TEST(KerasFitOracle, EveryCaseGivesKerasNumbers) {
  const Json document = oracle::document("keras_fit.json");
  int num_run = 0;
  int num_better = 0;
  for (const Json& test : document.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    try {
      run(document, test);
      ++num_run;
      num_better += depends_on_replicas(test);
    } catch (const NotSupported& reason) {
      ADD_FAILURE() << "not run: " << reason.what();
    }
  }
  std::cout << "keras_fit.json: " << num_run << " cases run, " << num_better
            << " of them against one device (better_on_purpose)\n";
  EXPECT_GT(num_run, 0);
}

}  // namespace
}  // namespace tutti::keras
