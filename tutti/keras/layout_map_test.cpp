// Keras's models in layouts by name, trained in global view on a mesh.
#include "tutti/dtensor/layout_map.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/dtensor/dtensor_dataset.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras {
namespace {

using dtensor::LayoutMap;
using testing::HasSubstr;

Sequential make_model() {
  Sequential model({layers::Dense({.units = 6, .activation = activations::relu}), layers::Dense({.units = 1})});
  model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01}), .loss = losses::MeanSquaredError()});
  return model;
}

Sequential make_built_model() {
  const Sequential model = make_model();
  model.build({kUnknown, 4});
  return model;
}

class KerasLayoutMap : public testing::TestWithParam<bool> {
 protected:
  Mesh mesh{{{"batch", 2}, {"model", 2}}, configure_logical_cpus(4), {.merge = GetParam()}};
  LayoutMap map{
      mesh,
      {{"dense.kernel", {kUnsharded, "model"}}, {"dense.bias", {"model"}}, {"dense_1.kernel", {"model", kUnsharded}}}};
};

TEST_P(KerasLayoutMap, WeightsHaveTheirLayouts) {
  const Sequential model = map.build(make_built_model);
  std::vector<std::string> layouts;
  for (const auto& weight : model.weights()) layouts.push_back(weight.name + ' ' + layout_of(weight.value).to_string());
  EXPECT_THAT(layouts, testing::ElementsAre("dense/kernel [unsharded, model]", "dense/bias [model]",
                                            "dense_1/kernel [model, unsharded]", "dense_1/bias [unsharded]"));
}

TEST_P(KerasLayoutMap, FitOnADatasetOnTheMeshIsThatOfOneDevice) {
  set_random_seed(2);
  const Tensor x = at::rand({32, 4}), y = x.sum(1, /*keepdim=*/true);
  const auto samples = data::from_tensor_slices(x, y);
  set_random_seed(3);
  const Sequential plain = make_built_model();
  set_random_seed(3);
  const Sequential model = map.build(make_built_model);
  const dtensor::DTensorDataset batches(
      samples, {.mesh = mesh,
                .layouts = {Layout::batch_sharded(mesh, "batch", 2), Layout::batch_sharded(mesh, "batch", 2)},
                .global_batch_size = 8,
                .batch_dim = "batch"});
  const FitOptions options{.epochs = 3, .verbose = Verbose::silent};
  const auto expected = plain.fit(samples.batch(8), options).history.at("loss");
  const auto losses = model.fit(batches, options).history.at("loss");
  ASSERT_EQ(losses.size(), 3U);
  for (size_t epoch = 0; epoch < losses.size(); ++epoch) EXPECT_NEAR(losses[epoch], expected[epoch], 1e-5);
  EXPECT_EQ(layout_of(model.weights()[0].value), Layout({kUnsharded, "model"}, mesh));
  EXPECT_EQ(layout_of(model.weights()[2].value), Layout({"model", kUnsharded}, mesh));
}

INSTANTIATE_TEST_SUITE_P(Buffers, KerasLayoutMap, testing::Bool(),
                         [](const auto& info) { return info.param ? "merged" : "separate"; });

TEST(KerasLayoutMap, AModelThatIsNotBuiltHasNoNamesYet) {
  const Mesh mesh({{"model", 2}}, configure_logical_cpus(2));
  EXPECT_THAT(
      error_of([&] {
        LayoutMap(mesh, {{"kernel", {kUnsharded, "model"}}}).build(make_model);
      }),
      HasSubstr("no parameter or buffer matches the keys [kernel]; the module's are none: it has no parameter"));
}

}  // namespace
}  // namespace tutti::keras
