#include "tutti/distribute/variable.h"
#include "tests/support/test_devices.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>

#include <memory>

#include "tests/support/dataset_values.h"
#include "tests/support/three_replicas.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum VariableAggregation;

constexpr auto kOnRead = VariableSynchronization::on_read;

class Variables : public ThreeReplicas {
 protected:
  Variable make(const Tensor& initial, const VariableOptions& options = {}) {
    return strategy.build([&] { return variable(initial, options); });
  }
  // A scalar that replica r has set to 1 + r.
  Variable counted(const VariableOptions& options) {
    const Variable made = make(at::zeros({}), options);
    strategy.run([&] { made.add_(1 + replica()); });
    return made;
  }
};

class VariableCreation : public Variables {};
class OnRead : public Variables {};
class VariablePrinting : public Variables {};
class VariableGradients : public Variables {};

TEST_F(VariableCreation, TakesACopyOfTheInitialValue) {
  const Tensor initial = at::ones({2});
  const Variable made = make(initial);
  initial.zero_();
  EXPECT_TRUE(is_mesh_tensor(made));
  EXPECT_THAT(numbers(made.value()), ElementsAre(1, 1));
  EXPECT_THAT(numbers(strategy.build([] { return variable(at::full({2}, 3)); }).value()), ElementsAre(3, 3));
}

TEST_F(VariableCreation, IsTrainableIfFloatingPointAndNotOnRead) {
  EXPECT_TRUE(make(at::ones({})).requires_grad());
  EXPECT_FALSE(make(at::ones({}, at::kInt)).requires_grad());
  EXPECT_FALSE(make(at::ones({}), {.synchronization = kOnRead}).requires_grad());
  EXPECT_FALSE(make(at::ones({}), {.trainable = false}).requires_grad());
  EXPECT_TRUE(make(at::ones({}), {.synchronization = kOnRead, .trainable = true}).requires_grad());
}

TEST_F(VariableCreation, RefusesWhatNoVariableCanBe) {
  EXPECT_THAT(
      error_of([&] { variable(at::ones({}), {.name = "w", .synchronization = VariableSynchronization::none}); }),
      AllOf(HasSubstr("invalid_argument"), HasSubstr("'w'"), HasSubstr("variable_test.cpp:"),
            HasSubstr("on_write or on_read")));
  EXPECT_THAT(error_of([&] { make(at::ones({}, at::kInt), {.aggregation = mean}); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("Int"), HasSubstr("mean")));
  EXPECT_THAT(error_of([&] { make(at::ones({}, at::kBool), {.aggregation = sum}); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([&] { make(at::ones({}, at::kLong), {.trainable = true}); }), HasSubstr("only floating point"));
}

TEST_F(VariableCreation, UnderTheDefaultStrategyIsAPlainTensor) {
  const Variable plain = variable(at::ones({2}), {.aggregation = sum});
  EXPECT_FALSE(is_mesh_tensor(plain));
  EXPECT_TRUE(plain.requires_grad());
  plain.assign(at::full({2}, 4.0)).assign_add(1).assign_sub(at::ones({2}));
  EXPECT_THAT(numbers(plain), ElementsAre(4, 4));
  EXPECT_EQ(str(plain), str(static_cast<const Tensor&>(plain)));
  EXPECT_THAT(numbers(get_strategy().run([&] { return plain.value(); })[0]), ElementsAre(4, 4));
}

TEST_F(VariableCreation, LosesNothingAsATensor) {
  const Tensor tensor = make(at::zeros({}), {.name = "n", .aggregation = sum});
  const Variable again(tensor);
  EXPECT_EQ(again.name(), "n");
  EXPECT_EQ(again.policy(), (VariablePolicy{.aggregation = sum}));
  strategy.run([&] { again.assign(at::ones({})); });
  EXPECT_EQ(tensor.item<float>(), 3);
}

TEST_F(VariableCreation, InAReplicaTakesReplicaZerosInitialValueForAll) {
  const auto made = strategy.run([&] { return variable(at::full({2}, 5.0 + replica()), {.name = "w"}); });
  for (const Variable& each : made) EXPECT_TRUE(each.is_same(made[0]));
  EXPECT_THAT(numbers(made[0].value()), Each(5));
  const auto in_build = strategy.run([&] {
    return strategy.build([] { return variable(at::ones({}), {.aggregation = sum, .synchronization = kOnRead}); });
  });
  EXPECT_EQ(in_build[2].value().item<float>(), 3);
}

TEST_F(VariableCreation, InReplicasThatWantUnlikeVariablesIsRefused) {
  EXPECT_THAT(error_of([&] { strategy.run([&] { variable(at::ones({2 + replica()}), {.name = "w"}); }); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("replica 1 makes 'w'"), HasSubstr("[3]"),
                    HasSubstr("replica 0 'w'"), HasSubstr("[2]"), HasSubstr("variable_test.cpp:")));
  EXPECT_THAT(
      error_of([&] { strategy.run([&] { variable(at::ones({}), {.aggregation = replica() == 2 ? sum : none}); }); }),
      AllOf(HasSubstr("replica 2"), HasSubstr("aggregation sum")));
  EXPECT_THAT(
      error_of([&] { strategy.run([&] { variable(at::ones({}, replica() == 1 ? at::kFloat : at::kDouble)); }); }),
      HasSubstr("failed_precondition"));
}

TEST_F(VariableCreation, InAMergeCallIsTheStrategys) {
  const auto made = strategy.run(
      [&] { return get_replica_context().merge_call([](Strategy&) { return variable(at::full({}, 2.0)); }); });
  EXPECT_TRUE(is_mesh_tensor(made[0]));
  strategy.run([&] { (made[0] * (1 + replica())).backward(); });
  EXPECT_EQ(gather(made[0].grad()).item<double>(), 6);
}

TEST_F(Variables, ReadTheOwnComponentInAReplicaAndTheFirstOutside) {
  const Variable made = counted({.trainable = false});
  EXPECT_THAT(strategy.run([&] { return (made * 10).item<float>(); }).values(), ElementsAre(10, 20, 30));
  EXPECT_EQ((made * 10).item<float>(), 10);
  EXPECT_THAT(strategy.run([&] { return made.value().item<float>(); }).values(), ElementsAre(1, 2, 3));
}

TEST_F(Variables, GiveASnapshotAsTheirValue) {
  const Variable made = make(at::zeros({}));
  const Tensor before = made.value();
  made.assign(1);
  EXPECT_EQ(before.item<float>(), 0);
  EXPECT_THAT(strategy
                  .run([&] {
                    const Tensor own = made.value();
                    made.assign(7);
                    return own.item<float>();
                  })
                  .values(),
              Each(1));
}

TEST_F(Variables, AreTheSameAfterAMeetingThatReadThemAndMoreWrites) {
  const Variable total = make(at::zeros({}), {.aggregation = sum, .synchronization = kOnRead});
  const auto seen = strategy.run([&] {
    total.assign_add(1);
    const float seen = get_replica_context().merge_call([&](Strategy&) { return total.value().item<float>(); });
    total.assign_add(1);
    return seen;
  });
  EXPECT_THAT(seen.values(), Each(3));
  EXPECT_EQ(total.value().item<float>(), 6);
}

TEST_F(Variables, OfAnotherStrategyAreRefusedByNameInBothDirections) {
  MirroredStrategy two({.devices = test_devices(2)});
  const Variable of_two = two.build([] { return variable(at::ones({}), {.name = "small"}); });
  const Variable of_three = make(at::ones({}), {.name = "large"});
  EXPECT_THAT(error_of([&] { strategy.run([&] { return of_two + 1; }); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("'small'"), HasSubstr("<replica=2>"),
                    HasSubstr("<replica=3>"), HasSubstr("another strategy")));
  EXPECT_THAT(error_of([&] { two.run([&] { return of_three + 1; }); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("'large'"), HasSubstr("another strategy")));
  EXPECT_THAT(error_of([&] { two.run([&] { of_three.assign(1); }); }), HasSubstr("'large'"));
  EXPECT_THAT(two.run([&] { return (of_two + 1).item<float>(); }).values(), Each(2));
  EXPECT_THAT(strategy.run([&] { return (of_three + 1).item<float>(); }).values(), Each(2));
}

TEST_F(Variables, ShareOneBufferAsLongAsTheyAgree) {
  const Variable made = make(at::ones({4}), {.aggregation = mean});
  const auto buffers = [&] { return strategy.run([&] { return local(made).const_data_ptr(); }); };
  strategy.run([&] { made.assign_add(at::full({4}, replica(), at::kFloat)); });
  EXPECT_THAT(buffers().values(), Each(buffers()[0]));
  EXPECT_THAT(numbers(made.value()), Each(2));
}

TEST_F(OnRead, AggregatesWhereItIsReadOutside) {
  EXPECT_EQ(counted({.aggregation = sum, .synchronization = kOnRead}).value().item<float>(), 6);
  EXPECT_EQ(counted({.aggregation = mean, .synchronization = kOnRead}).value().item<float>(), 2);
  const Variable first = counted({.aggregation = only_first_replica, .synchronization = kOnRead});
  EXPECT_EQ((first + 0).item<float>(), 1);
  EXPECT_THAT(strategy.run([&] { return first.value().item<float>(); }).values(), ElementsAre(1, 2, 3));
}

TEST_F(OnRead, WithoutAggregationHasNoValueOutside) {
  const Variable made = counted({.name = "n", .synchronization = kOnRead});
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_THAT(error_of([&] { return made + 1; }), AllOf(HasSubstr("invalid_argument"), HasSubstr("'n'")));
  EXPECT_THAT(error_of([&] { made.value(); }), HasSubstr("read it in run"));
  EXPECT_THAT(error_of([&] { made.zero_(); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(strategy.run([&] { return made.value().item<float>(); }).values(), ElementsAre(1, 2, 3));
}

TEST_F(OnRead, InPlaceOpsOutsideSetTheValueOfWhichComponentsOfASumHaveShares) {
  const Variable average = counted({.aggregation = mean, .synchronization = kOnRead});
  average.add_(1);
  EXPECT_THAT(strategy.run([&] { return average.value().item<float>(); }).values(), Each(3));
  const Variable total = counted({.name = "total", .aggregation = sum, .synchronization = kOnRead});
  total.mul_(2);
  EXPECT_EQ(total.value().item<float>(), 12);
  EXPECT_THAT(strategy.run([&] { return total.value().item<float>(); }).values(), Each(4));
  const Variable count = make(at::zeros({}, at::kLong), {.aggregation = sum, .synchronization = kOnRead});
  count.add_(-8);
  EXPECT_THAT(strategy.run([&] { return count.value().item<int64_t>(); }).values(), ElementsAre(-4, -2, -2));
  EXPECT_EQ(count.value().item<int64_t>(), -8);
}

TEST_F(OnRead, TakesASumInSharesFromWhatReplacesItsData) {
  const Variable total = counted({.aggregation = sum, .synchronization = kOnRead});
  total.set_data(at::full({}, 12.0));
  EXPECT_EQ(total.value().item<float>(), 12);
  EXPECT_THAT(strategy.run([&] { return total.value().item<float>(); }).values(), Each(4));
}

TEST_F(OnRead, ComponentsThatReplicasWriteAtOnceStayApart) {
  const Variable total = make(at::zeros({1 << 12}, at::kLong), {.aggregation = sum, .synchronization = kOnRead});
  for (int step = 0; step < 200; ++step) {
    strategy.run([&] { total.add_(replica()); });
    if (step % 50 == 0) total.value();
  }
  EXPECT_THAT(numbers(total.value()), Each(200 * 3));
}

TEST_F(VariablePrinting, ShowsEachComponentWithItsDevice) {
  const Variable made = make(at::ones({}), {.name = "w"});
  strategy.run([&] { made.assign(1 + replica()); });
  std::string wanted = "MirroredVariable 'w':{\n";
  for (size_t r = 0; r < 3; ++r)
    wanted +=
        str("  ", r, ": ", test_devices(3)[r], "\n    ", r + 1, "\n    [ ", made.components()[r].toString(), "{} ]\n");
  EXPECT_EQ(str(made), wanted + "}");
}

TEST_F(VariablePrinting, NamesWhatIsOnReadAndWorksInAScope) {
  const Variable made = counted({.aggregation = sum, .synchronization = kOnRead});
  EXPECT_THAT(str(made), HasSubstr(str("SyncOnReadVariable:{\n  0: ", test_devices(3)[0], "\n    1\n")));
  EXPECT_EQ(strategy.build([&] { return str(made); }), str(made));
}

TEST_F(VariablePrinting, InAReplicaShowsItsOwnComponent) {
  const Variable made = make(at::ones({}));
  EXPECT_THAT(strategy.run([&] { return str(made); }).values(), Each(str(at::ones({}))));
}

TEST_F(VariableGradients, AreReducedOverTheReplicas) {
  const Variable weight = make(at::ones({2}));
  strategy.run([&] { (weight * (1 + replica())).sum().backward(); });
  EXPECT_THAT(numbers(gather(weight.grad())), Each(6));
  const Variable mean_of = strategy.build([] { return variable(at::ones({})); }, {.gradients = ReduceOp::mean});
  strategy.run([&] { (mean_of * (1 + replica())).backward(); });
  EXPECT_EQ(gather(mean_of.grad()).item<float>(), 2);
}

TEST_F(VariableGradients, FlowThroughItsValue) {
  const Variable weight = make(at::ones({2}));
  (weight.value() * 3).sum().backward();
  EXPECT_THAT(numbers(gather(weight.grad())), Each(3));
  strategy.run([&] { weight.value().sum().backward(); });
  EXPECT_THAT(numbers(gather(weight.grad())), Each(6));
}

TEST_F(VariableGradients, AreLocalToAComponentThatDiffers) {
  const Variable weight = counted({.trainable = false});
  weight.set_requires_grad(true);
  strategy.run([&] { (weight * weight).backward(); });
  EXPECT_EQ(gather(weight.grad()).item<float>(), 2 + 4 + 6);
}

TEST_F(VariableGradients, AGraphThatSavedAnAssignedVariableIsRefused) {
  const Variable weight = make(at::ones({}), {.aggregation = mean});
  EXPECT_THROW(strategy.run([&] {
    const Tensor loss = weight * weight;
    weight.assign(at::zeros({}));
    loss.backward();
  }),
               c10::Error);
  const Tensor loss = weight * weight;
  weight.assign(2);
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST_F(VariableGradients, OptimizersStepIt) {
  const Variable weight = make(at::ones({2}));
  Optimizer sgd(torch::optim::SGD({weight}, 0.5));
  strategy.run([&] {
    sgd.zero_grad();
    (weight * (1 + replica())).sum().backward();
    sgd.step();
  });
  EXPECT_THAT(numbers(weight.value()), Each(1 - 0.5 * 6));
  sgd.zero_grad();
  weight.sum().backward();
  sgd.step();
  EXPECT_THAT(numbers(weight.value()), Each(-2.5));
}

TEST_F(Variables, ViewsThatGlobalViewMadeOfThemAreViewsInAReplica) {
  const Variable made = make(at::arange(6, at::kFloat).view({2, 3}), {.trainable = false});
  const Tensor row = made.select(0, 1);
  EXPECT_THAT(strategy.run([&] { return (row + 0).sum().item<float>(); }).values(), Each(12));
  const auto turned = strategy.run([&, turned = made.t()] {
    made.add_(replica());
    turned[0].zero_();  // of the own component
    return made.sum().item<float>();
  });
  EXPECT_THAT(turned.values(), ElementsAre(1 + 2 + 4 + 5, 12 + 4, 12 + 8));
  const Variable trained = make(at::ones({2}));
  EXPECT_THAT(error_of([&, half = trained[0]] { strategy.run([&] { return half + 1; }); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("compute it inside run")));
  EXPECT_THAT(strategy.run([half = trained.detach()[0]] { return (half + 1).requires_grad(); }).values(), Each(false));
}

TEST_F(Variables, LieInAReplicaOnItsDevice) {
  if (list_logical_devices(DeviceType::gpu).empty()) GTEST_SKIP() << "needs a GPU";
  MirroredStrategy mixed({.devices = {"CPU:0", "GPU:0"}});
  const Variable made = mixed.build([] { return variable(at::ones({})); });
  EXPECT_TRUE(made.device().is_cpu());
  EXPECT_THAT(mixed.run([&] { return !made.device().is_cpu(); }).values(), ElementsAre(false, true));
}

}  // namespace
}  // namespace tutti
