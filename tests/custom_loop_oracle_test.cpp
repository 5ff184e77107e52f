// What TensorFlow returned for custom training loops (tests/oracle/custom_loop.json), case by case.
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/oracle_cases.h"
#include "tutti/data/dataset.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti {
namespace {

using oracle::Json;

// A global batch size is one integer: no fraction arrives, and a tensor does not compile.
static_assert(std::is_same_v<decltype(AverageLossOptions::global_batch_size), std::optional<int64_t>>);
static_assert(!std::is_constructible_v<std::optional<int64_t>, Tensor>);

MirroredStrategy replicas(const Json& test) {
  return MirroredStrategy({.devices = configure_logical_cpus(test.at("replicas"))});
}

Tensor tensor_or_number(const Json& json) {
  return json.is_number() ? at::scalar_tensor(json.get<float>()) : oracle::tensor(json);
}

// Whether numbers of a training history are those that were recorded.
bool close(double actual, double recorded) { return std::abs(actual - recorded) <= 1e-4 + 1e-4 * std::abs(recorded); }
bool close(const Tensor& actual, const Json& recorded) {
  return at::allclose(actual, oracle::tensor(recorded), 1e-4, 1e-4);
}

struct Loop {
  keras::Sequential model;
  keras::optimizers::SGD optimizer;
};

Loop build(Strategy& strategy, const Json& test) {
  const double l2 = test.at("l2");
  const Loop loop = strategy.build([&] {
    keras::layers::DenseOptions dense{.units = 1};
    if (l2 != 0) dense.kernel_regularizer = keras::regularizers::L2(l2);
    const keras::Sequential model({keras::layers::Dense(dense)});
    model.build({keras::kUnknown, test.at("features").get<int64_t>()});
    return Loop{model, keras::optimizers::SGD({.learning_rate = test.at("learning_rate").get<double>(),
                                               .momentum = test.at("momentum").get<double>()})};
  });
  loop.model.set_weights({oracle::tensor(test.at("kernel0")), oracle::tensor(test.at("bias0"))});
  return loop;
}

auto batches(const Json& test) {
  const int64_t samples = test.at("samples");
  const Tensor x = test.contains("x") ? oracle::tensor(test.at("x")) : at::ones({samples, test.at("features")});
  const Tensor y = test.contains("y") ? oracle::tensor(test.at("y")) : at::ones({samples, 1});
  return data::from_tensor_slices(x, y).batch(test.at("global_batch"));
}

// One replica's share of a step, and its loss before the update.
Tensor train_step(const Loop& loop, const AverageLossOptions& average, const Tensor& features, const Tensor& labels) {
  static const keras::losses::BinaryCrossentropy loss_object(
      {.from_logits = true, .reduction = keras::Reduction::none});
  const auto& variables = loop.model.trainable_variables();
  const Tensor predictions = loop.model(features, {.training = true});
  const Tensor loss = compute_average_loss(loss_object(labels, predictions), average)
                          .add(scale_regularization_loss(loop.model.losses()));
  loop.optimizer.apply_gradients(gradients(loss, variables), variables);
  return loss.detach();
}

bool loop_holds(const Json& test) {
  MirroredStrategy strategy = replicas(test);
  const Loop loop = build(strategy, test);
  AverageLossOptions average;
  if (test.at("explicit_global_batch")) average.global_batch_size = test.at("global_batch").get<int64_t>();
  const Json& expected = test.at("expected");
  bool holds = true;
  size_t step = 0;
  for (int epoch = 0; epoch < test.at("epochs"); ++epoch)
    for (const auto& batch : strategy.distribute(batches(test))) {
      const auto losses =
          strategy.run([&](const Tensor& x, const Tensor& y) { return train_step(loop, average, x, y); }, batch);
      holds &= close(strategy.reduce(ReduceOp::sum, losses).item<double>(), expected.at("losses").at(step));
      for (size_t r = 0; r < losses.size(); ++r)
        holds &= close(losses[r].item<double>(), expected.at("per_replica_losses").at(step).at(r));
      ++step;
    }
  const auto weights = loop.model.get_weights();
  return holds && step == expected.at("losses").size() && close(weights[0], expected.at("kernel")) &&
         close(weights[1], expected.at("bias"));
}

bool all_equal(const PerReplica<Tensor>& actual, const Json& expected) {
  bool equal = actual.size() == expected.size();
  for (size_t r = 0; r < actual.size() && equal; ++r) equal = oracle::equals(actual[r], expected[r]);
  return equal;
}

bool average_holds(const Json& test) {
  MirroredStrategy strategy = replicas(test);
  const auto results = strategy.run([&] {
    const auto own = [](const Json& list) {
      const auto replica = static_cast<size_t>(get_replica_context().replica_id_in_sync_group());
      return tensor_or_number(list.at(replica % list.size()));
    };
    AverageLossOptions options;
    if (!test.at("sample_weight").is_null()) options.sample_weight = own(test.at("sample_weight"));
    if (!test.at("global_batch_size").is_null())
      options.global_batch_size = test.at("global_batch_size").get<int64_t>();
    return compute_average_loss(own(test.at("per_example_loss")), options);
  });
  return test.contains("expected") && all_equal(results, test.at("expected"));
}

bool regularization_holds(const Json& test) {
  MirroredStrategy strategy = replicas(test);
  return all_equal(strategy.run([&] { return scale_regularization_loss(oracle::tensor(test.at("value"))); }),
                   test.at("expected"));
}

// Single calls, told by their names.
bool context_holds(const Json& test) {
  const std::string name = test.at("name");
  const auto says = [&](const char* words) { return name.find(words) != std::string::npos; };
  AverageLossOptions average;
  if (says("global 6")) average.global_batch_size = 6;
  if (says("without a strategy"))
    return oracle::equals(compute_average_loss(at::ones({3}).mul(3), average), test.at("expected"));
  if (!says("in scope outside run")) return false;
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const auto scope = strategy.scope();
  if (says("compute_average_loss"))
    compute_average_loss(at::ones({3}));
  else if (says("scale_regularization_loss"))
    scale_regularization_loss(at::ones({}));
  return false;
}

TEST(CustomLoopOracle, GivesTensorFlowsNumbers) {
  oracle::run_cases("custom_loop.json", [](const Json& test) {
    const std::string kind = test.at("kind");
    if (kind == "loop") return loop_holds(test);
    if (kind == "compute_average_loss") return average_holds(test);
    if (kind == "scale_regularization_loss") return regularization_holds(test);
    return kind == "context" && context_holds(test);
  });
}

}  // namespace
}  // namespace tutti
