#include "tutti/distribute/reduce.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor rows(int64_t first, int64_t last) { return at::arange(first, last, at::kDouble); }

class Reduce : public testing::Test {
 protected:
  MirroredStrategy strategy{{.devices = configure_logical_cpus(3)}};
  PerReplica<Tensor> equal{at::full({2}, 1.5), at::full({2}, 2.5), at::full({2}, 5.0)};
  PerReplica<Tensor> uneven{rows(0, 3), rows(3, 5), rows(5, 5)};  // the last one is empty
};

TEST_F(Reduce, AddsOrAveragesOverTheReplicas) {
  EXPECT_THAT(numbers(strategy.reduce(ReduceOp::sum, equal)), ElementsAre(9, 9));
  EXPECT_THAT(numbers(strategy.reduce(ReduceOp::mean, equal)), ElementsAre(3, 3));
}

TEST_F(Reduce, LeavesTheValuesAsTheyWere) {
  strategy.reduce(ReduceOp::sum, equal);
  EXPECT_THAT(numbers(equal[0]), ElementsAre(1.5, 1.5));
  const PerReplica<Tensor> one{equal[0]};
  EXPECT_THAT(numbers(get_strategy().reduce(ReduceOp::mean, one)), ElementsAre(1.5, 1.5));
}

TEST_F(Reduce, OverAnAxisIsExactForUnevenAndEmptyShards) {
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, uneven, 0).item<double>(), 10);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, uneven, 0).item<double>(), 2);
}

TEST_F(Reduce, OverAnAxisKeepsTheOthers) {
  const PerReplica<Tensor> values{rows(0, 4).view({2, 2}), rows(4, 6).view({1, 2}), rows(6, 8).view({1, 2})};
  EXPECT_THAT(numbers(strategy.reduce(ReduceOp::mean, values, 0)), ElementsAre(3, 4));
  EXPECT_THAT(numbers(strategy.reduce(ReduceOp::mean, values, -2)), ElementsAre(3, 4));
}

TEST_F(Reduce, RefusesAnAxisThatIsNotThere) {
  EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, uneven, 1); }),
              AllOf(HasSubstr("out_of_range"), HasSubstr("axis 1")));
  EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, uneven, -2); }), HasSubstr("out_of_range"));
}

TEST_F(Reduce, RefusesUnequalShapesDtypesAndRanks) {
  EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, uneven); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("[3]"), HasSubstr("[2]")));
  const PerReplica<Tensor> dtypes{at::ones({1}), at::ones({1}, at::kDouble), at::ones({1})};
  EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, dtypes); }), HasSubstr("invalid_argument"));
  const PerReplica<Tensor> ranks{at::ones({1}), at::ones({1, 1}), at::ones({1})};
  EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, ranks, 0); }), HasSubstr("invalid_argument"));
}

TEST_F(Reduce, AddsIntegersAndRefusesTheirMean) {
  const Tensor one = at::ones({}, at::kLong);
  const PerReplica<Tensor> integers{one, one, one};
  const Tensor sum = strategy.reduce(ReduceOp::sum, integers);
  EXPECT_EQ(sum.scalar_type(), at::kLong);
  EXPECT_EQ(sum.item<int64_t>(), 3);
  EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::mean, integers); }), HasSubstr("invalid_argument"));
}

TEST_F(Reduce, TakesNumbers) {
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, PerReplica<int>{1, 2, 4}), 7);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, PerReplica<double>{1, 2, 6}), 3);
  EXPECT_THAT(error_of([&] {
                strategy.reduce(ReduceOp::mean, PerReplica<int>{1, 2, 6});
              }),
              HasSubstr("invalid_argument"));
}

TEST_F(Reduce, OfAPlainValueIsItsMeanAndNoSum) {
  const Tensor plain = at::full({}, 4);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, plain).item<float>(), 4);
  EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, plain); }), HasSubstr("invalid_argument"));
  EXPECT_EQ(get_strategy().reduce(ReduceOp::sum, plain).item<float>(), 4);
}

TEST(AllReduceTensors, GivesEachItsOwn) {
  const auto sums = all_reduce_tensors(ReduceOp::sum, {at::ones({2}), at::ones({2})});
  sums[0].add_(1);
  EXPECT_THAT(numbers(sums[0]), ElementsAre(3, 3));
  EXPECT_THAT(numbers(sums[1]), ElementsAre(2, 2));
}

}  // namespace
}  // namespace tutti
