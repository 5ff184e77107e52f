// Models, optimizers and metrics on several replicas give what one device gives.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/central_storage_strategy.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/one_device_strategy.h"
#include "tutti/keras/layers/convolutional/conv.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/pooling/pooling.h"
#include "tutti/keras/layers/regularization/dropout.h"
#include "tutti/keras/layers/reshaping/flatten.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"
#include "tutti/keras/metrics/accuracy.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras {
namespace {

using ::testing::HasSubstr;

MirroredStrategy mirrored(int replicas, bool merge = true) {
  return MirroredStrategy({.devices = configure_logical_cpus(replicas), .mesh = {.merge = merge}});
}

Sequential classifier() {
  const Sequential model({layers::Conv2D({.filters = 4, .activation = activations::relu}), layers::MaxPooling2D(),
                          layers::Flatten(),
                          layers::Dense({.units = 3, .kernel_regularizer = regularizers::L2(0.01)})});
  model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01, .global_clipnorm = 0.5}),
                 .loss = losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {metrics::SparseCategoricalAccuracy({.name = "accuracy"})}});
  return model;
}

struct Trained {
  History history;
  Logs evaluation;
  Tensor predictions;
  std::vector<Tensor> weights;
};

// 21 images in batches of 8: the last one is short, and leaves replicas with little or nothing.
Trained train(Strategy& strategy) {
  set_random_seed(3);
  const Tensor x = at::randn({21, 8, 8, 1});
  const Tensor y = at::randint(3, {21}, at::kLong);
  const Sequential model = strategy.build(classifier);
  const auto batches = data::from_tensor_slices(x, y).batch(8);
  Trained trained;
  trained.history = model.fit(batches, {.epochs = 3, .verbose = Verbose::silent, .validation_data = batches});
  trained.evaluation = model.evaluate(x, y, {.batch_size = 8, .verbose = Verbose::silent});
  trained.predictions = model.predict(x, {.batch_size = 8});
  trained.weights = model.get_weights();
  return trained;
}

void expect_near(const Trained& many, const Trained& one) {
  for (const auto& [name, values] : one.history.history)
    for (size_t epoch = 0; epoch < values.size(); ++epoch)
      EXPECT_NEAR(many.history.history.at(name).at(epoch), values[epoch], 1e-5) << name;
  for (const auto& [name, value] : one.evaluation) EXPECT_NEAR(many.evaluation.at(name), value, 1e-5) << name;
  EXPECT_TRUE(at::allclose(many.predictions, one.predictions, 1e-4, 1e-4));
  for (size_t i = 0; i < one.weights.size(); ++i)
    EXPECT_TRUE(at::allclose(many.weights[i], one.weights[i], 1e-4, 1e-4)) << i;
}

TEST(Fit, GivesTheNumbersOfOneDeviceUnderEveryStrategy) {
  const Trained one = train(get_strategy());
  const auto cpus = configure_logical_cpus(3);
  OneDeviceStrategy one_device("CPU:1");
  CentralStorageStrategy central({.compute_devices = cpus, .parameter_device = "CPU:0"});
  for (Strategy* strategy : {static_cast<Strategy*>(&one_device), static_cast<Strategy*>(&central)}) {
    SCOPED_TRACE(strategy->name());
    expect_near(train(*strategy), one);
  }
}

TEST(Fit, GivesTheNumbersOfOneDeviceOnAnyNumberOfReplicas) {
  const Trained one = train(get_strategy());
  for (const bool merge : {true, false})
    for (const int replicas : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(testing::Message() << replicas << " replicas, merge " << merge);
      MirroredStrategy strategy = mirrored(replicas, merge);
      expect_near(train(strategy), one);
    }
}

TEST(Fit, IsRepeatableBitForBit) {
  MirroredStrategy strategy = mirrored(3);
  const Trained first = train(strategy), second = train(strategy);
  EXPECT_EQ(first.history.history, second.history.history);
  for (size_t i = 0; i < first.weights.size(); ++i) EXPECT_TRUE(at::equal(first.weights[i], second.weights[i])) << i;
}

TEST(Fit, MayBeCalledInTheScope) {
  MirroredStrategy strategy = mirrored(2);
  const auto scope = strategy.scope();
  const Sequential model({layers::Dense({.units = 1})});
  model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
  const auto dataset = data::from_tensors(at::ones({1}), at::ones({1})).repeat(10).batch(4);
  EXPECT_EQ(model.fit(dataset, {.verbose = Verbose::silent}).epoch.size(), 1U);
  EXPECT_TRUE(is_mesh_tensor(model.weights()[0].value));
}

TEST(Fit, IsRefusedInAReplica) {
  MirroredStrategy strategy = mirrored(2);
  const Sequential model = strategy.build(classifier);
  const auto fit = [&] { model.fit(at::ones({4, 8, 8, 1}), at::ones({4})); };
  EXPECT_THAT(error_of([&] { strategy.run(fit); }),
              HasSubstr("failed_precondition: sequential.fit: called by replica"));
}

// The numbers that the tf.distribute guide prints.
TEST(CustomLoop, GivesTheLossesOfTheGuideOnFourReplicas) {
  MirroredStrategy strategy = mirrored(4);
  auto [model, optimizer] = strategy.build([] {
    return std::pair(Sequential({layers::Dense({.units = 1,
                                                .kernel_initializer = initializers::Constant(-0.55429743),
                                                .kernel_regularizer = regularizers::L2(1e-4)})}),
                     optimizers::SGD({.learning_rate = 0.01}));
  });
  const losses::BinaryCrossentropy loss_object({.from_logits = true, .reduction = Reduction::none});
  const auto train_step = [&model = model, &optimizer = optimizer, &loss_object](const Tensor& x, const Tensor& y) {
    Tensor loss = compute_average_loss(loss_object(y, model(x, {.training = true})));
    loss = loss + scale_regularization_loss(model.losses());
    optimizer.apply_gradients(gradients(loss, model.trainable_variables()), model.trainable_variables());
    return loss.detach();
  };
  std::vector<double> losses;
  for (const auto& batch : strategy.distribute(data::from_tensors(at::ones({1}), at::ones({1})).repeat(1000).batch(20)))
    losses.push_back(strategy.reduce(ReduceOp::sum, strategy.run(train_step, batch)).item<double>());
  ASSERT_EQ(losses.size(), 50U);
  EXPECT_NEAR(losses[0], 1.0082505, 1e-6);
  EXPECT_NEAR(losses[2], 0.9922241, 1e-6);
  EXPECT_NEAR(losses[49], 0.69249296, 1e-6);
  EXPECT_EQ(optimizer.iterations(), 50);
}

TEST(Layer, IsBuiltOnceWhenReplicasCallItFirst) {
  MirroredStrategy strategy = mirrored(3);
  const layers::Dense dense({.units = 2});
  const auto outputs = strategy.run([&](const Tensor& x) { return dense(x).detach(); }, at::ones({4, 5}));
  EXPECT_TRUE(at::equal(outputs[0], outputs[1]));
  EXPECT_TRUE(at::equal(outputs[0], outputs[2]));
  ASSERT_EQ(dense.weights().size(), 2U);
  EXPECT_TRUE(is_mesh_tensor(dense.weights()[0].value));
}

TEST(Layer, DrawsOtherRandomNumbersOnEachReplica) {
  MirroredStrategy strategy = mirrored(2);
  const layers::Dropout dropout({.rate = 0.5});
  const auto outputs = strategy.run([&] { return dropout(at::ones({100}), {.training = true}); });
  EXPECT_FALSE(at::equal(outputs[0], outputs[1]));
}

TEST(ApplyGradients, SumsAndClipsOnce) {
  MirroredStrategy strategy = mirrored(2);
  const Tensor w = strategy.build([] { return at::ones({2}).requires_grad_(); });
  const optimizers::SGD optimizer({.learning_rate = 1, .clipvalue = 3});
  strategy.run([&](const Tensor& g) { optimizer.apply_gradients({g}, {w}); },
               PerReplica<Tensor>({at::tensor({2.f, -1.f}), at::tensor({2.f, 0.5f})}));
  EXPECT_TRUE(at::allclose(gather(w.detach()), at::tensor({-2.f, 1.5f})));
  EXPECT_EQ(optimizer.iterations(), 1);
}

TEST(ApplyGradients, CountsAMissingGradientAsZero) {
  MirroredStrategy strategy = mirrored(2);
  const Tensor w = strategy.build([] { return at::ones({2}).requires_grad_(); });
  const optimizers::SGD optimizer({.learning_rate = 1});
  strategy.run([&](const Tensor& g) { optimizer.apply_gradients({g}, {w}); },
               PerReplica<Tensor>({Tensor(), at::tensor({2.f, 3.f})}));
  EXPECT_TRUE(at::allclose(gather(w.detach()), at::tensor({-1.f, -2.f})));
}

TEST(ApplyGradients, NamesAReplicaThatSkipsIt) {
  MirroredStrategy strategy = mirrored(2);
  const Tensor w = strategy.build([] { return at::ones({2}).requires_grad_(); });
  const optimizers::SGD optimizer;
  const auto step = [&] {
    if (get_replica_context().replica_id_in_sync_group() == 0) optimizer.apply_gradients({at::ones({2})}, {w});
  };
  EXPECT_THAT(error_of([&] { strategy.run(step); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("apply_gradients"), HasSubstr("replicas_test.cpp")));
}

TEST(Metric, IsUpdatedByAllReplicasAtOnce) {
  MirroredStrategy strategy = mirrored(4);
  const metrics::Mean mean = strategy.build([] { return metrics::Mean(); });
  for (int step = 0; step < 3; ++step)
    strategy.run([&] { mean.update_state(at::ones({2}) * get_replica_context().replica_id_in_sync_group()); });
  EXPECT_EQ(mean.result().item<double>(), 1.5);
  mean.reset_state();
  EXPECT_EQ(mean.result().item<double>(), 0);
}

}  // namespace
}  // namespace tutti::keras
