// Strategy::update.
#include "tutti/distribute/component_update.h"
#include "tests/support/test_devices.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/three_replicas.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Update : public ThreeReplicas {
 protected:
  Variable made = strategy.build([] { return variable(at::zeros({2})); });
  PerReplica<Tensor> values = strategy.run([] { return at::full({2}, 1.0f + static_cast<float>(replica())); });
  std::vector<float> firsts() {
    std::vector<float> all;
    for (const Tensor& component : strategy.local_results(made)) all.push_back(component[0].item<float>());
    return all;
  }
};

TEST_F(Update, CallsTheFunctionForEachComponentWithItsArguments) {
  const auto sums = strategy.update(
      made,
      [](const Tensor& component, const Tensor& value, double factor) {
        EXPECT_FALSE(is_mesh_tensor(component));
        return component.add_(value * factor).sum().item<double>();
      },
      values, 10.0);
  EXPECT_THAT(sums.values(), ElementsAre(20, 40, 60));
  EXPECT_THAT(firsts(), ElementsAre(10, 20, 30));
  EXPECT_EQ(made.value()[0].item<float>(), 10);
  EXPECT_TRUE(made.requires_grad());
}

TEST_F(Update, IsSeenByReadsAndReplicasThatFollow) {
  EXPECT_EQ(made.value()[0].item<float>(), 0);
  strategy.update(made, [](const Tensor& component) { component.fill_(4); });
  EXPECT_EQ(made.value()[0].item<float>(), 4);
  EXPECT_THAT(strategy.run([&] { return made.sum().item<float>(); }).values(), Each(8));
  const Tensor loss = (made * made).sum();
  strategy.update(made, [](const Tensor& component) { component.fill_(5); });
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST_F(Update, InAReplicaMeetsAndTakesEachReplicasOwnValue) {
  const auto sums = strategy.run([&] {
    const Tensor own = at::full({2}, 1.0f + replica());
    strategy.update(
        made, [](const Tensor& component, const Tensor& value) { component.add_(value); }, own);
    return strategy.update(made, [](const Tensor& component) { return component.sum().item<float>(); });
  });
  EXPECT_THAT(firsts(), ElementsAre(1, 2, 3));
  for (const auto& each : sums) EXPECT_THAT(each.values(), ElementsAre(2, 4, 6));
  EXPECT_THAT(error_of([&] {
                strategy.run([&] {
                  strategy.update(
                      made, [](const Tensor&, const Tensor&) {}, values);
                });
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("pass its own")));
}

TEST_F(Update, WorksUnderTheDefaultStrategy) {
  const Variable plain = variable(at::zeros({2}));
  get_strategy().update(
      plain, [](const Tensor& component, const Tensor& value) { component.copy_(value); },
      PerReplica<Tensor>{at::ones({2})});
  EXPECT_THAT(numbers(plain), Each(1));
}

TEST_F(Update, RefusesTheVariableOfAnotherStrategyAndAnotherNumberOfValues) {
  MirroredStrategy two({.devices = test_devices(2)});
  EXPECT_THAT(error_of([&] { two.update(made, [](const Tensor&) {}); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("component_update_test.cpp:"),
                    HasSubstr(str(test_devices(3)[2]))));
  EXPECT_THAT(error_of([&] {
                strategy.update(
                    made, [](const Tensor&, const Tensor&) {}, PerReplica<Tensor>{at::ones({2})});
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("update:")));
}

}  // namespace
}  // namespace tutti
