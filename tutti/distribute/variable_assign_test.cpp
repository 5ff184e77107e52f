// assign and the scatter updates, beyond what tests/variables_oracle_test.cpp compares with TensorFlow.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "tests/support/dataset_values.h"
#include "tests/support/test_devices.h"
#include "tests/support/three_replicas.h"
#include "tutti/collectives/communications.h"
#include "tutti/distribute/variable.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum VariableAggregation;

constexpr auto kSyncOnRead = VariableSynchronization::on_read;

class VariableTest : public ThreeReplicas {
 protected:
  Variable make(const Tensor& initial, const VariableOptions& options = {}) {
    return strategy.build([&] { return variable(initial, options); });
  }
  static Numbers components(const Variable& variable) {
    Numbers all;
    for (const Tensor& component : variable.components()) all.push_back(numbers(component));
    return all;
  }
};

class Assign : public VariableTest {};
class Scatter : public VariableTest {};

TEST_F(Assign, OutsideUpdatesEachComponentWhereReplicasMadeThemDiffer) {
  const Variable made = make(at::zeros({}));
  strategy.run([&] { made.assign(replica()); });
  EXPECT_THAT(components(made.assign_add(10)), ElementsAre(ElementsAre(10), ElementsAre(11), ElementsAre(12)));
  EXPECT_EQ(made.value().item<float>(), 10);
  EXPECT_THAT(components(made.assign(3)), Each(ElementsAre(3)));
}

TEST_F(Assign, InReplicasUpdatesEachComponentWhereTheyDiffer) {
  const Variable made = make(at::zeros({}), {.aggregation = sum, .trainable = false});
  strategy.run([&] { made.add_(replica()); });  // LibTorch's op: the own component
  strategy.run([&] { made.assign_add(at::ones({})); });
  EXPECT_THAT(components(made), ElementsAre(ElementsAre(3), ElementsAre(4), ElementsAre(5)));
}

TEST_F(Assign, FillsWithANumberAndChecksItsDtype) {
  const Variable made = make(at::zeros({2, 2}));
  EXPECT_THAT(numbers(made.assign(2.5).assign_sub(1).value()), Each(1.5));
  const Variable integer = make(at::zeros({2}, at::kInt), {.name = "steps"});
  EXPECT_THAT(numbers(integer.assign(2).assign_add(true).value()), Each(3));
  EXPECT_THAT(error_of([&] { integer.assign(2.5); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("'steps'"), HasSubstr("Int"), HasSubstr("Double"),
                    HasSubstr("variable_assign_test.cpp:")));
}

TEST_F(Assign, RefusesAnotherShapeOrDtypeInReplicasAndOutside) {
  const Variable made = make(at::zeros({2}), {.name = "w", .aggregation = sum});
  EXPECT_THAT(error_of([&] { made.assign(at::ones({})); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("'w'"), HasSubstr("[2]"), HasSubstr("[]")));
  EXPECT_THAT(error_of([&] { made.assign_add(at::ones({2}, at::kDouble)); }), HasSubstr("Double"));
  EXPECT_THAT(error_of([&] { strategy.run([&] { made.assign(at::ones({3})); }); }), HasSubstr("[3]"));
  strategy.run([&] { made.assign(at::ones({2})); });  // all is well afterwards
  EXPECT_THAT(numbers(made.value()), Each(3));
}

TEST_F(Assign, RefusesANumberToAddUpAndOthersValuesInAReplica) {
  const Variable made = make(at::zeros({}), {.aggregation = sum});
  EXPECT_THAT(error_of([&] { strategy.run([&] { made.assign_add(1); }); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("pass a tensor")));
  const PerReplica<Tensor> values{at::ones({}), at::ones({}), at::ones({})};
  EXPECT_THAT(error_of([&] { strategy.run([&] { made.assign(VariableValue(values)); }); }), HasSubstr("pass its own"));
  EXPECT_THAT(error_of([&] {
                made.assign(PerReplica<Tensor>{at::ones({}), at::ones({})});
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("3 components"), HasSubstr("2 values")));
}

TEST_F(Assign, ReplicasAtDifferentVariablesDoNotMeet) {
  const Variable a = make(at::zeros({}), {.aggregation = sum}), b = make(at::zeros({}), {.aggregation = sum});
  EXPECT_THAT(error_of([&] { strategy.run([&] { (replica() == 1 ? a : b).assign(at::ones({})); }); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("assign"), HasSubstr("variable_assign_test.cpp:")));
  EXPECT_THAT(error_of([&] {
                strategy.run([&] {
                  if (replica() == 0) a.assign_add(at::ones({}));
                });
              }),
              HasSubstr("assign_add"));
  EXPECT_EQ(a.value().item<float>() + b.value().item<float>(), 0);
}

TEST_F(Assign, TakesAVariableAsItsValue) {
  const Variable from = make(at::zeros({})), to = make(at::zeros({})),
                 total = make(at::zeros({}), {.aggregation = sum});
  strategy.run([&] {
    from.assign(1 + replica());
    to.assign(from);
    total.assign(from);
  });
  EXPECT_THAT(components(to), ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3)));
  EXPECT_EQ(total.value().item<float>(), 6);
  EXPECT_THAT(components(to.assign(total)), Each(ElementsAre(6)));
  EXPECT_THAT(components(to.assign_add(to)), Each(ElementsAre(12)));
}

TEST_F(Assign, TakesAComponentOfItsOwnAsItWas) {
  const Variable made = make(at::zeros({}), {.aggregation = only_first_replica});
  strategy.update(
      made, [](const Tensor& component, int own) { component.fill_(own); }, PerReplica<int>{1, 2, 3});
  strategy.run([&] { made.assign_add(made); });
  EXPECT_THAT(components(made), ElementsAre(ElementsAre(2), ElementsAre(3), ElementsAre(4)));
  made.assign_add(made.components()[0]);
  EXPECT_THAT(components(made), ElementsAre(ElementsAre(4), ElementsAre(5), ElementsAre(6)));
  const auto own = made.components();
  made.assign(PerReplica<Tensor>{own[2], own[0], own[1]});
  EXPECT_THAT(components(made), ElementsAre(ElementsAre(6), ElementsAre(4), ElementsAre(5)));
}

TEST_F(Scatter, TakesRowsAndPlacesOfItsOwnAsTheyWere) {
  const Variable table = make(moved(at::tensor({2, 0, 1}, at::kLong)));
  table.scatter_add(table, table);
  EXPECT_THAT(components(table), Each(ElementsAre(2, 1, 3)));
}

TEST_F(Assign, IsSeenByWhoHoldsAComponent) {
  const Variable made = make(at::zeros({2}), {.aggregation = mean});
  EXPECT_THAT(strategy
                  .run([&] {
                    const Tensor own = local(made);
                    made.assign(at::full({2}, 2.0 * replica(), at::kFloat));
                    return own.sum().item<float>();
                  })
                  .values(),
              Each(4));
}

TEST_F(Assign, OfAMeanOfEqualValuesIsThatValue) {
  const Variable made = make(at::zeros({}), {.aggregation = mean});
  strategy.run([&] { made.assign(0.1); });
  EXPECT_EQ(made.value().item<float>(), 0.1f);
}

TEST_F(Assign, WritesParametersAndBuffersOfModules) {
  auto linear = strategy.build([] { return torch::nn::Linear(2, 1); });
  const Variable weight(linear->weight);
  weight.assign(1);
  EXPECT_THAT(numbers(gather(linear->weight)), Each(1));
  strategy.run([&] { weight.assign_add(replica()); });
  EXPECT_THAT(strategy.run([&] { return weight.sum().item<float>(); }).values(), ElementsAre(2, 4, 6));
}

TEST_F(Assign, WorksInAScopeAndInAMergeCall) {
  const Variable made = strategy.build([] { return variable(at::zeros({2})).assign_add(2); });
  EXPECT_THAT(numbers(made.value()), Each(2));
  strategy.run([&] {
    get_replica_context().merge_call([&](Strategy&, const PerReplica<Tensor>& values) { made.assign(values[2]); },
                                     at::full({2}, 1.0f * replica()));
  });
  EXPECT_THAT(components(made), Each(ElementsAre(2, 2)));
}

TEST_F(Assign, OfAPlainTensorInSeveralReplicasIsRefused) {
  const Variable plain = variable(at::zeros({}), {.name = "plain"});
  EXPECT_THAT(error_of([&] { strategy.run([&] { plain.assign(1); }); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("'plain'"), HasSubstr("strategy's scope")));
}

TEST_F(Assign, IsReportedAsACollective) {
  const Variable total = make(at::zeros({2}), {.aggregation = sum});
  const Variable first = make(at::zeros({2}), {.aggregation = only_first_replica});
  reset_communications();
  strategy.run([&] {
    total.assign_add(at::ones({2}));
    first.assign(at::ones({2}));
  });
  std::vector<std::string> seen;
  for (const auto& each : communications())
    if (each.count > 0) seen.push_back(each.op + " " + each.cause + " " + std::to_string(each.bytes));
  EXPECT_THAT(seen, ElementsAre("all_reduce assign_add 8", "broadcast assign 8"));
}

TEST_F(Scatter, UpdatesRowsOutsideInEveryComponent) {
  const Variable table = make(at::zeros({3, 2}));
  const Tensor rows = at::arange(1, 5, at::kFloat).view({2, 2});
  table.scatter_add(moved(at::tensor({2, 0})), rows);
  EXPECT_THAT(components(table), Each(ElementsAre(3, 4, 0, 0, 1, 2)));
  table.scatter_update(moved(at::tensor({1})), rows.narrow(0, 1, 1)).scatter_sub(moved(at::tensor({0, 0})), rows);
  EXPECT_THAT(numbers(table.value()), ElementsAre(-1, -2, 3, 4, 1, 2));
  table.scatter_mul(moved(at::tensor({1, 1})), rows).scatter_div(moved(at::tensor({2})), rows.narrow(0, 0, 1));
  EXPECT_THAT(numbers(table.value()), ElementsAre(-1, -2, 9, 32, 1, 1));
  table.scatter_min(moved(at::tensor({1})), rows.narrow(0, 0, 1))
      .scatter_max(moved(at::tensor({0})), rows.narrow(0, 1, 1));
  EXPECT_THAT(numbers(table.value()), ElementsAre(3, 4, 1, 2, 1, 1));
}

TEST_F(Scatter, TakesRowsOfIntegers) {
  const Variable counts = make(at::full({2}, 7, at::kInt), {.aggregation = sum});
  strategy.run([&] { counts.scatter_add(moved(at::tensor({replica() % 2}, at::kInt)), at::ones({1}, at::kInt)); });
  EXPECT_THAT(numbers(counts.value()), ElementsAre(9, 8));
  counts.scatter_div(moved(at::tensor({0, 0})), moved(at::tensor({2, 2}, at::kInt)));
  EXPECT_THAT(numbers(counts.value()), ElementsAre(2, 8));
}

TEST_F(Scatter, RefusesIndicesAndValuesThatDoNotFit) {
  const Variable table = make(at::zeros({3, 2}), {.name = "table"});
  EXPECT_THAT(error_of([&] {
                table.scatter_add(moved(at::tensor({3})), at::ones({1, 2}));
              }),
              AllOf(HasSubstr("out_of_range"), HasSubstr("'table'"), HasSubstr("3 rows")));
  EXPECT_THAT(error_of([&] {
                table.scatter_add(moved(at::tensor({-1})), at::ones({1, 2}));
              }),
              HasSubstr("out_of_range"));
  EXPECT_THAT(error_of([&] {
                table.scatter_add(moved(at::tensor({1})), at::ones({2, 2}));
              }),
              HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([&] { table.scatter_add(moved(at::tensor({1})), at::ones({1})); }),
              HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([&] {
                table.scatter_add(moved(at::tensor({1.0})), at::ones({1, 2}));
              }),
              HasSubstr("of integers"));
  EXPECT_THAT(error_of([&] { make(at::zeros({})).scatter_add(moved(at::tensor({0})), at::ones({1})); }),
              HasSubstr("invalid_argument"));
  EXPECT_THAT(numbers(table.scatter_add(at::zeros({0}, at::kLong), at::ones({0, 2})).value()), Each(0));
}

TEST_F(Scatter, ConcatenatesTheRowsOfReplicasWithUnlikeNumbersOfThem) {
  const Variable table = make(at::zeros({3}), {.aggregation = sum});
  strategy.run([&] { table.scatter_add(at::arange(replica()), at::ones({replica()})); });
  EXPECT_THAT(numbers(table.value()), ElementsAre(2, 1, 0));
}

TEST_F(Scatter, OnReadIsUnimplemented) {
  const Variable table = make(at::zeros({3}), {.aggregation = sum, .synchronization = kSyncOnRead});
  EXPECT_THAT(error_of([&] { table.scatter_add(moved(at::tensor({0})), at::ones({1})); }), HasSubstr("unimplemented"));
}

}  // namespace
}  // namespace tutti
