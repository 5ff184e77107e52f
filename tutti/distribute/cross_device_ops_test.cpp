#include "tutti/distribute/cross_device_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <memory>

#include "tests/support/dataset_values.h"
#include "tests/support/test_devices.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/hierarchical_copy_all_reduce.h"
#include "tutti/distribute/in_process_all_reduce.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/reduction_to_one_device.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/torch_device.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What a user writes: one function. It only counts what it is asked for.
class Counting final : public CrossDeviceOps {
 public:
  std::shared_ptr<int> requests = std::make_shared<int>(0);

 protected:
  std::vector<std::vector<Tensor>> batch_reduce_implementation(ReduceOp op,
                                                               std::span<const ReduceRequest> asked) const override {
    *requests += static_cast<int>(asked.size());
    return InProcessAllReduce().batch_reduce(op, {asked.begin(), asked.end()});
  }
};

// Values where the replicas are.
PerReplica<Tensor> on_replicas(std::vector<Tensor> values) {
  const auto devices = test_devices(static_cast<int>(values.size()));
  for (size_t r = 0; r < values.size(); ++r) values[r] = values[r].to(torch_device(devices[r]));
  return PerReplica(std::move(values));
}

PerReplica<Tensor> ramps(int replicas, at::ScalarType dtype = at::kDouble) {
  std::vector<Tensor> values;
  for (int r = 0; r < replicas; ++r) values.push_back(at::arange(6, at::kDouble).add(r).to(dtype).view({2, 3}));
  return on_replicas(std::move(values));
}

// The rows of an embedding's gradient: IndexedSlices.
Tensor slices(std::vector<int64_t> rows, std::vector<double> values) {
  return at::sparse_coo_tensor(at::tensor(rows).view({1, -1}), at::tensor(values).view({-1, 1}), {10, 1});
}

using Ops = std::shared_ptr<CrossDeviceOps>;

class EachCrossDeviceOps : public testing::TestWithParam<Ops> {
 protected:
  const CrossDeviceOps& ops = *GetParam();
};

INSTANTIATE_TEST_SUITE_P(
    All, EachCrossDeviceOps,
    testing::Values(Ops(std::make_shared<InProcessAllReduce>()), Ops(std::make_shared<ReductionToOneDevice>()),
                    Ops(std::make_shared<ReductionToOneDevice>(ReductionToOneDeviceOptions{.reduce_to_device = "CPU"})),
                    Ops(std::make_shared<HierarchicalCopyAllReduce>()),
                    Ops(std::make_shared<HierarchicalCopyAllReduce>(HierarchicalCopyAllReduceOptions{.num_packs = 0})),
                    Ops(std::make_shared<HierarchicalCopyAllReduce>(HierarchicalCopyAllReduceOptions{.num_packs = 3})),
                    Ops(std::make_shared<Counting>())));

TEST_P(EachCrossDeviceOps, ReducesAnyNumberOfValuesToAnyDestinations) {
  for (int replicas = 1; replicas <= 9; ++replicas)
    for (const int destinations : {1, replicas}) {
      const auto values = ramps(replicas);
      const auto devices = test_devices(destinations);
      const double extra = (replicas - 1) / 2.0;
      for (const auto& [op, scale] : {std::pair(ReduceOp::sum, double(replicas)), std::pair(ReduceOp::mean, 1.0)}) {
        const auto results = ops.reduce(op, values, devices);
        ASSERT_EQ(results.size(), devices.size());
        for (const Tensor& result : results)
          ASSERT_EQ(numbers(result), numbers((at::arange(6, at::kDouble) + extra) * scale)) << replicas;
      }
      ASSERT_EQ(numbers(values[0]), numbers(at::arange(6)));  // as they were
    }
}

TEST_P(EachCrossDeviceOps, ReducesABatchOfTensorsOfSeveralDtypesAndSizes) {
  for (const int replicas : {2, 5}) {
    const Destinations devices = test_devices(replicas);
    std::vector<ReduceRequest> requests;
    for (const auto dtype : {at::kDouble, at::kInt, at::kFloat}) requests.push_back({ramps(replicas, dtype), devices});
    requests.push_back({PerReplica(std::vector<Tensor>(static_cast<size_t>(replicas), at::ones({0, 4}))), devices});
    requests.push_back({PerReplica(std::vector<Tensor>(static_cast<size_t>(replicas), at::ones({}))), devices});
    const auto results = ops.batch_reduce(ReduceOp::sum, requests);
    for (size_t i = 0; i < 3; ++i)
      for (const Tensor& result : results[i]) {
        EXPECT_EQ(result.scalar_type(), requests[i].values[0].scalar_type());
        EXPECT_EQ(result.sizes(), at::IntArrayRef({2, 3}));
        EXPECT_EQ(numbers(result), numbers((at::arange(6) + (replicas - 1) / 2.0) * replicas));
      }
    EXPECT_EQ(results[3][1].sizes(), at::IntArrayRef({0, 4}));
    EXPECT_EQ(results[4][1].item<float>(), replicas);
  }
}

TEST_P(EachCrossDeviceOps, ResultsHaveMemoryOfTheirOwn) {
  const auto values = ramps(4);
  const auto results = ops.reduce(ReduceOp::sum, values, test_devices(4));
  for (int r = 0; r < 4; ++r) results[static_cast<size_t>(r)].fill_(r);
  for (int r = 0; r < 4; ++r) EXPECT_THAT(numbers(results[static_cast<size_t>(r)]), Each(r));
  EXPECT_EQ(numbers(values[1]), numbers(at::arange(1, 7)));
}

TEST_P(EachCrossDeviceOps, TheMeanOfIntegersIsAFloat) {
  const PerReplica<Tensor> ints{at::full({1}, 1, at::kInt), at::full({1}, 2, at::kInt)};
  const PerReplica<Tensor> bytes{at::full({1}, 250, at::kByte), at::full({1}, 251, at::kByte)};
  EXPECT_EQ(ops.reduce(ReduceOp::mean, ints, "CPU:0")[0].scalar_type(), at::kDouble);
  EXPECT_EQ(ops.reduce(ReduceOp::mean, ints, "CPU:0")[0].item<double>(), 1.5);
  EXPECT_EQ(ops.reduce(ReduceOp::mean, bytes, "CPU:0")[0].scalar_type(), at::kFloat);
  EXPECT_EQ(ops.reduce(ReduceOp::mean, bytes, "CPU:0")[0].item<float>(), 250.5);         // no sum that wraps
  EXPECT_EQ(ops.reduce(ReduceOp::mean, {ints[0]}, "CPU:0")[0].scalar_type(), at::kInt);  // one is its own mean
}

TEST_P(EachCrossDeviceOps, SparseValuesAreJoinedWithTheirDuplicates) {
  const PerReplica<Tensor> values{slices({0, 1}, {1, 2}), slices({1, 2}, {3, 4})};
  for (const auto& [op, scale] : {std::pair(ReduceOp::sum, 1.0), std::pair(ReduceOp::mean, 0.5)})
    for (const Tensor& result : ops.reduce(op, values, test_devices(2))) {
      EXPECT_FALSE(result.is_coalesced());
      EXPECT_THAT(numbers(result._indices()), ElementsAre(0, 1, 1, 2));
      EXPECT_THAT(numbers(result._values()), ElementsAre(scale, 2 * scale, 3 * scale, 4 * scale));
      EXPECT_EQ(result.sizes(), at::IntArrayRef({10, 1}));
    }
}

TEST_P(EachCrossDeviceOps, SparseAndDenseGoTogetherInABatch) {
  const Destinations devices = test_devices(2);
  const PerReplica<Tensor> sparse{slices({0}, {1}), slices({2, 3}, {3, 4})};
  const auto results = ops.batch_reduce(ReduceOp::sum, {{sparse, devices}, {ramps(2), devices}, {sparse, devices}});
  EXPECT_THAT(numbers(results[2][1]._indices()), ElementsAre(0, 2, 3));
  EXPECT_EQ(numbers(results[1][1]), numbers(at::arange(6) * 2 + 1));
}

TEST_P(EachCrossDeviceOps, GathersInReplicaOrder) {
  const PerReplica<Tensor> values{at::ones({1, 2}), at::full({2, 2}, 2.0), at::ones({0, 2})};
  for (const Tensor& result : ops.gather(values, test_devices(3), 0))
    EXPECT_THAT(numbers(result), ElementsAre(1, 1, 2, 2, 2, 2));
  EXPECT_EQ(ops.gather(ramps(3), "CPU:0", 1)[0].sizes(), at::IntArrayRef({2, 9}));
}

TEST_P(EachCrossDeviceOps, BroadcastsCopies) {
  const Tensor value = at::ones({2});
  const auto copies = ops.broadcast(value, test_devices(3));
  copies[1].fill_(5);
  EXPECT_THAT(numbers(copies[2]), Each(1));
  EXPECT_THAT(numbers(value), Each(1));
  EXPECT_TRUE(ops.broadcast(value, test_devices(1))[0].is_same(value));
}

TEST_P(EachCrossDeviceOps, GradientsGoThrough) {
  const PerReplica<Tensor> leaves{at::ones({2}).set_requires_grad(true), at::ones({2}).set_requires_grad(true)};
  (ops.reduce(ReduceOp::mean, leaves, test_devices(2))[1] * 3).sum().backward();
  EXPECT_THAT(numbers(leaves[0].grad()), Each(1.5));
  EXPECT_THAT(numbers(leaves[1].grad()), Each(1.5));
}

TEST_P(EachCrossDeviceOps, RefusesWhatDoesNotFitTogether) {
  const auto refusal = [&](const Tensor& a, const Tensor& b) {
    return error_of([&] { ops.reduce(ReduceOp::sum, {a, b}, "CPU:0"); });
  };
  EXPECT_THAT(refusal(at::ones({1}), at::ones({2})),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("replica 1"), HasSubstr("[2]"), HasSubstr("[1]")));
  EXPECT_THAT(refusal(at::ones({1}), at::ones({1}, at::kDouble)), HasSubstr("invalid_argument"));
  EXPECT_THAT(refusal(slices({0}, {1}), at::ones({10, 1}, at::kDouble)), HasSubstr("invalid_argument"));
  EXPECT_THAT(refusal(at::ones({1}, at::kBool), at::ones({1}, at::kBool)), HasSubstr("booleans"));
  EXPECT_THAT(error_of([&] { ops.reduce(ReduceOp::sum, ramps(2), std::vector<Device>{}); }),
              HasSubstr("invalid_argument: destinations"));
}

TEST_P(EachCrossDeviceOps, RefusesWhatCannotBeJoined) {
  const auto refusal = [&](const Tensor& a, const Tensor& b, int64_t axis) {
    return error_of([&] { ops.gather({a, b}, "CPU:0", axis); });
  };
  EXPECT_THAT(refusal(at::ones({}), at::ones({}), 0), HasSubstr("invalid_argument: gather: the value is a scalar"));
  EXPECT_THAT(refusal(at::ones({1}), at::ones({1}), 1), HasSubstr("out_of_range: gather: axis 1"));
  EXPECT_THAT(refusal(at::ones({1}), at::ones({1}), -1), HasSubstr("out_of_range"));
  EXPECT_THAT(refusal(at::ones({1}), at::ones({1, 1}), 0), HasSubstr("invalid_argument"));
  EXPECT_THAT(refusal(at::ones({1, 1}), at::ones({1, 2}), 0), HasSubstr("invalid_argument"));
  EXPECT_THAT(refusal(at::ones({1}), at::ones({1}, at::kInt), 0), HasSubstr("invalid_argument"));
}

// In float32 the order of additions shows: 2^24 + 1 is 2^24, and -2^24 + 1 is exact.
TEST(HierarchicalCopyAllReduce, AddsTheSumsOfTheHalves) {
  const float big = 16777216;
  const PerReplica<Tensor> values =
      on_replicas({at::full({1}, big), at::full({1}, 1.0F), at::full({1}, 1.0F), at::full({1}, -big)});
  const Destinations devices = test_devices(4);
  for (const int num_packs : {0, 1})
    for (const Tensor& sum : HierarchicalCopyAllReduce({.num_packs = num_packs}).reduce(ReduceOp::sum, values, devices))
      EXPECT_EQ(sum.item<float>(), 1);  // (2^24 + 1) + (1 - 2^24)
  EXPECT_EQ(InProcessAllReduce().reduce(ReduceOp::sum, values, devices)[0].item<float>(), 0);  // one after the other
}

TEST(ReductionToOneDevice, TakesAnotherAccumulation) {
  const ReductionToOneDevice ops({.accumulation_fn = [](const std::vector<Tensor>& values) { return values[1] * 10; }});
  EXPECT_THAT(numbers(ops.reduce(ReduceOp::sum, {at::ones({1}), at::full({1}, 2.0)}, "CPU:0")[0]), ElementsAre(20));
}

TEST(ReductionToOneDevice, RefusesADeviceThatDoesNotExist) {
  EXPECT_THAT(error_of([] { ReductionToOneDevice({.reduce_to_device = "CPU:4096"}); }), HasSubstr("not_found"));
}

TEST(HierarchicalCopyAllReduce, RefusesANegativeNumberOfPacks) {
  EXPECT_THAT(error_of([] { HierarchicalCopyAllReduce({.num_packs = -1}); }),
              HasSubstr("invalid_argument: HierarchicalCopyAllReduce: num_packs is -1"));
}

class Wrong final : public CrossDeviceOps {
 public:
  explicit Wrong(std::vector<std::vector<Tensor>> results) : results_(std::move(results)) {}

 protected:
  std::vector<std::vector<Tensor>> batch_reduce_implementation(ReduceOp,
                                                               std::span<const ReduceRequest>) const override {
    return results_;
  }

 private:
  std::vector<std::vector<Tensor>> results_;
};

TEST(CrossDeviceOps, AnImplementationThatReturnsSomethingElseIsNamed) {
  const auto refusal = [](std::vector<std::vector<Tensor>> results) {
    return error_of([&] { Wrong(results).reduce(ReduceOp::sum, ramps(2), test_devices(2)); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("failed_precondition: CrossDeviceOps: batch_reduce_implementation returned 0"));
  EXPECT_THAT(refusal({{at::ones({2, 3})}}), HasSubstr("1 tensors for the 2 destinations"));
  EXPECT_THAT(refusal({{at::ones({2, 3}), at::ones({3})}}), HasSubstr("another shape than [2, 3]"));
}

// Everything that reduces under a strategy goes through the ops that it was given.
TEST(CrossDeviceOps, AStrategyUsesThoseItWasGiven) {
  const Counting ops;
  MirroredStrategy strategy({.devices = test_devices(3), .cross_device_ops = ops});
  const auto asked = [&] { return std::exchange(*ops.requests, 0); };

  strategy.reduce(ReduceOp::sum, ramps(3));
  EXPECT_EQ(asked(), 1);
  strategy.run([] { get_replica_context().all_reduce(ReduceOp::mean, at::ones({2})); });
  EXPECT_EQ(asked(), 1);

  const Tensor weight = strategy.build([] { return at::ones({2}).set_requires_grad(true); });
  strategy.run([&] { (weight * (1 + get_replica_context().replica_id_in_sync_group())).sum().backward(); });
  EXPECT_THAT(numbers(tutti::gather(weight.grad())), Each(6));
  EXPECT_EQ(asked(), 1);

  strategy.run([&] {  // a gradient that one replica lacks counts as zero
    weight.mutable_grad().reset();
    if (get_replica_context().replica_id_in_sync_group() != 1) (weight * 2).sum().backward();
  });
  EXPECT_THAT(numbers(tutti::gather(weight.grad())), Each(4));
  EXPECT_EQ(asked(), 1);
}

TEST(Destinations, AreThoseOfATensor) {
  MirroredStrategy strategy({.devices = test_devices(3)});
  const Tensor variable = strategy.build([] { return at::ones({2}); });
  EXPECT_EQ(Destinations(variable).devices(), test_devices(3));
  EXPECT_EQ(Destinations(at::ones({2})).devices(), test_devices(1));
  EXPECT_EQ(Destinations({"CPU:0", "CPU:2"}).devices()[1].index, 2);
  EXPECT_EQ(Destinations("CPU:1").devices()[0].index, 1);
}

}  // namespace
}  // namespace tutti
