#include "tutti/distribute/reduce.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"
#include "tests/support/test_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor rows(int64_t first, int64_t last) { return at::arange(first, last, at::kDouble); }

class Reduce : public testing::Test {
 protected:
  MirroredStrategy strategy{{.devices = test_devices(3)}};
  PerReplica<Tensor> equal{at::full({2}, 1.5), at::full({2}, 2.5), at::full({2}, 5.0)};
  PerReplica<Tensor> uneven{rows(0, 3), rows(3, 5), rows(5, 5)};  // the last one is empty
  PerReplica<Tensor> uneven_integers{at::ones({3}, at::kInt), at::ones({1}, at::kInt), at::ones({2}, at::kInt)};
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

TEST_F(Reduce, AddsIntegersAndTheirMeanIsAFloat) {
  const Tensor one = at::ones({}, at::kLong);
  const PerReplica<Tensor> integers{one, one, one};
  const Tensor sum = strategy.reduce(ReduceOp::sum, integers);
  EXPECT_EQ(sum.scalar_type(), at::kLong);
  EXPECT_EQ(sum.item<int64_t>(), 3);
  const Tensor mean = strategy.reduce(ReduceOp::mean, integers);
  EXPECT_EQ(mean.scalar_type(), at::kDouble);
  EXPECT_EQ(mean.item<double>(), 1);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, uneven_integers, 0).scalar_type(), at::kDouble);
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, uneven_integers, 0).scalar_type(), at::kInt);
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

TEST_F(Reduce, OverSeveralAxes) {
  const PerReplica<Tensor> values{rows(0, 4).view({2, 2}), rows(4, 6).view({1, 2}), rows(6, 8).view({1, 2})};
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, values, {0, 1}).item<double>(), 28);
  EXPECT_EQ(strategy.reduce(ReduceOp::mean, values, {-1, 0}).item<double>(), 3.5);
  EXPECT_EQ(get_strategy().reduce(ReduceOp::mean, values[0], {0, 1}).item<double>(), 1.5);
  EXPECT_THAT(error_of([&] {
                strategy.reduce(ReduceOp::sum, values, {0, -2});
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("twice")));
}

struct Loss {
  Tensor total;
  std::map<std::string, std::vector<Tensor>> parts_by_name;
  auto parts() { return std::tie(total, parts_by_name); }
};

TEST_F(Reduce, OfStructuresGoesLeafByLeaf) {
  std::vector<Loss> losses;
  for (int r = 0; r < 3; ++r) losses.push_back({at::full({}, r), {{"a", {at::full({1}, 2 * r), at::full({2}, r)}}}});
  const Loss sum = strategy.reduce(ReduceOp::sum, PerReplica(losses));
  EXPECT_EQ(sum.total.item<int>(), 3);
  EXPECT_THAT(numbers(sum.parts_by_name.at("a")[0]), ElementsAre(6));
  EXPECT_EQ(losses[0].total.item<int>(), 0);  // as it was
  losses[1].parts_by_name.at("a").pop_back();
  EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, PerReplica(losses)); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("replica 1"), HasSubstr("{ \"a\" }[1]")));
}

TEST_F(Reduce, IsNotForReplicasNorForOtherNumbersOfThem) {
  EXPECT_THAT(error_of([&] { strategy.run([&] { strategy.reduce(ReduceOp::sum, equal); }); }),
              HasSubstr("failed_precondition: reduce: called by replica"));
  EXPECT_THAT(error_of([&] { strategy.run([&] { strategy.gather(equal, 0); }); }), HasSubstr("failed_precondition"));
  EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, PerReplica<Tensor>{equal[0]}); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("1 values"), HasSubstr("3 replicas")));
}

TEST_F(Reduce, OfAVariableIsItsMeanAndNoSum) {
  const Tensor variable = strategy.build([] { return at::ones({2}); });
  EXPECT_THAT(numbers(gather(strategy.reduce(ReduceOp::mean, variable))), ElementsAre(1, 1));
  EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, variable); }), HasSubstr("invalid_argument"));
}

TEST_F(Reduce, ToDestinations) {
  const auto at_two = strategy.reduce_to(ReduceOp::sum, equal, {"CPU:0", "CPU:1"});
  ASSERT_EQ(at_two.size(), 2U);
  at_two[0].fill_(0);
  EXPECT_THAT(numbers(at_two[1]), ElementsAre(9, 9));
  const Tensor variable = strategy.build([] { return at::ones({2}); });
  EXPECT_EQ(strategy.reduce_to(ReduceOp::mean, equal, variable).size(), 3U);
  EXPECT_EQ(strategy.reduce_to(ReduceOp::mean, at::ones({1}), variable).size(), 3U);
  EXPECT_THAT(error_of([&] { strategy.reduce_to(ReduceOp::sum, at::ones({1}), "CPU:0"); }),
              HasSubstr("invalid_argument"));
}

TEST_F(Reduce, SeveralValuesToTheirDestinations) {
  const auto both = strategy.batch_reduce_to(ReduceOp::mean, {{equal, "CPU:0"}, {equal, {"CPU:1", "CPU:2"}}});
  EXPECT_THAT(numbers(both[0][0]), ElementsAre(3, 3));
  EXPECT_EQ(both[1].size(), 2U);
  const Tensor one = at::ones({1}, at::kInt);
  const PerReplica<Tensor> integers{one, one, one};
  EXPECT_THAT(error_of([&] {
                strategy.batch_reduce_to(ReduceOp::sum, {{equal, "CPU:0"}, {integers, "CPU:0"}});
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("int32")));
}

TEST_F(Reduce, ResultsAreOrdinaryTensorsAlsoInAScope) {
  const auto scope = strategy.scope();
  EXPECT_FALSE(is_mesh_tensor(strategy.reduce(ReduceOp::sum, equal)));
  EXPECT_FALSE(is_mesh_tensor(strategy.gather(equal, 0)));
  EXPECT_FALSE(is_mesh_tensor(strategy.reduce(ReduceOp::mean, uneven_integers, 0)));
}

TEST_F(Reduce, GradientsGoThrough) {
  const Tensor x = at::ones({2}).set_requires_grad(true);
  strategy.reduce(ReduceOp::mean, PerReplica<Tensor>{x, x * 2, x * 3}, 0).backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(1, 1));
}

TEST_F(Reduce, GatherJoinsStructuresLeafByLeaf) {
  using Batch = std::pair<Tensor, Tensor>;
  const PerReplica<Batch> batches{Batch{rows(0, 2), rows(2, 3)}, Batch{rows(2, 3), rows(0, 0)},
                                  Batch{rows(3, 3), rows(0, 1)}};
  const auto [first, second] = strategy.gather(batches, 0);
  EXPECT_THAT(numbers(first), ElementsAre(0, 1, 2));
  EXPECT_THAT(numbers(second), ElementsAre(2, 0));
}

}  // namespace
}  // namespace tutti
