#include "tutti/distribute/replica_context.h"
#include "tests/support/test_devices.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/support/dataset_values.h"
#include "tests/support/three_replicas.h"
#include "tutti/collectives/failure.h"
#include "tutti/core/str.h"
#include "tutti/distribute/default_strategy.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor own_value(double scale = 1) {
  return at::full({2}, scale * (1 + get_replica_context().replica_id_in_sync_group()), at::kDouble);
}

class Context : public ThreeReplicas {};
class MergeCall : public ThreeReplicas {};
class AllReduce : public ThreeReplicas {};

TEST_F(Context, OutsideOfAnyStrategyIsThatOfTheDefaultStrategysOnlyReplica) {
  EXPECT_FALSE(has_strategy());
  EXPECT_FALSE(in_cross_replica_context());
  EXPECT_EQ(&get_strategy(), &default_strategy());
  EXPECT_EQ(replica(), 0);
  EXPECT_EQ(get_replica_context().num_replicas_in_sync(), 1);
}

TEST_F(Context, InAScopeIsCrossReplica) {
  {
    const auto scope = strategy.scope();
    EXPECT_TRUE(has_strategy());
    EXPECT_TRUE(in_cross_replica_context());
    EXPECT_EQ(&get_strategy(), &strategy);
    EXPECT_THAT(error_of([] { get_replica_context(); }),
                AllOf(HasSubstr("failed_precondition"), HasSubstr("replica_context_test.cpp:")));
    strategy.build([&] { EXPECT_EQ(&get_strategy(), &strategy); });  // its own scope again
  }
  EXPECT_FALSE(has_strategy());
}

TEST_F(Context, InARunIsThatOfAReplica) {
  strategy.run([&] {
    EXPECT_TRUE(has_strategy());
    EXPECT_FALSE(in_cross_replica_context());
    EXPECT_EQ(&get_strategy(), &strategy);
    EXPECT_EQ(&get_replica_context().strategy(), &strategy);
    EXPECT_EQ(get_replica_context().num_replicas_in_sync(), 3);
  });
  EXPECT_FALSE(has_strategy());
}

// As in a dataset's function that runs on a replica's thread.
TEST_F(Context, InGlobalViewWithinAReplicaIsStillThatOfTheReplica) {
  const Variable w = strategy.build([] { return variable(at::ones({2})); });
  strategy.run([&] {
    const int before = replica();
    const GlobalViewGuard global_view;
    EXPECT_FALSE(in_cross_replica_context());
    EXPECT_EQ(replica(), before);
    EXPECT_THAT(error_of([&] { strategy.run([] {}); }), HasSubstr(str("called by replica ", before)));
    EXPECT_THAT(error_of([&] { strategy.scope(); }), HasSubstr(str("by replica ", before)));
    EXPECT_EQ(gather(w).sum().item<int>(), 2);  // which a replica may not call
  });
}

TEST_F(Context, InTheFunctionOfAMergeCallIsCrossReplica) {
  strategy.run([&] {
    get_replica_context().merge_call([&](Strategy& given) {
      EXPECT_EQ(&given, &strategy);
      EXPECT_EQ(&get_strategy(), &strategy);
      EXPECT_TRUE(in_cross_replica_context());
      EXPECT_THAT(error_of([] { get_replica_context(); }), HasSubstr("failed_precondition"));
    });
    EXPECT_FALSE(in_cross_replica_context());
  });
}

TEST_F(Context, AScopeInAnotherStrategysIsAnError) {
  MirroredStrategy other({.devices = test_devices(2)});
  const auto scope = strategy.scope();
  const auto names_both_places = AllOf(HasSubstr("failed_precondition: scope of a MirroredStrategy at "),
                                       HasSubstr("in the scope of another strategy, a MirroredStrategy at "));
  EXPECT_THAT(error_of([&] { auto inner = other.scope(); }), names_both_places);
  EXPECT_THAT(error_of([&] { other.build([] {}); }), names_both_places);
  EXPECT_THAT(error_of([&] { default_strategy().build([] {}); }), HasSubstr("scope of a default strategy"));
}

TEST_F(Context, CallsOnAnotherStrategyAreErrors) {
  MirroredStrategy other({.devices = test_devices(2)});
  const auto calls = [](Strategy& its) {
    const PerReplica<Tensor> values{at::ones({}), at::ones({})};
    return std::vector{error_of([&] { its.run([] {}); }), error_of([&] { its.reduce(ReduceOp::sum, values); }),
                       error_of([&] { its.distribute(at::ones({4})); }),
                       error_of([&] { its.values_from_function([](ValueContext) { return 1; }); })};
  };
  {
    const auto scope = strategy.scope();
    EXPECT_THAT(calls(other), Each(AllOf(HasSubstr("failed_precondition"), HasSubstr("in the scope of another"))));
    EXPECT_THAT(error_of([] { default_strategy().run([] {}); }), HasSubstr("in the scope of another"));
  }
  strategy.run([&] {
    EXPECT_THAT(calls(other), Each(AllOf(HasSubstr("failed_precondition"), HasSubstr("MirroredStrategy"))));
    EXPECT_THAT(error_of([] { default_strategy().run([] {}); }), HasSubstr("in the run (replica "));
  });
}

TEST_F(Context, CrossReplicaCallsInAReplicaAreErrors) {
  const PerReplica<Tensor> values{at::ones({}), at::ones({}), at::ones({})};
  strategy.run([&] {
    const auto names_merge_call =
        AllOf(HasSubstr("failed_precondition"), HasSubstr(str("by replica ", replica())), HasSubstr("merge_call"));
    EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, values); }), names_merge_call);
    EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::mean, values[0]); }), names_merge_call);
    EXPECT_THAT(error_of([&] { strategy.reduce(ReduceOp::sum, PerReplica<int>{1, 2, 3}); }), names_merge_call);
    EXPECT_THAT(error_of([&] { strategy.distribute(at::ones({3})); }), names_merge_call);
    EXPECT_THAT(error_of([&] { strategy.values_from_function([](ValueContext) { return 1; }); }), names_merge_call);
    const auto sum = get_replica_context().merge_call(
        [&](Strategy& its) { return its.reduce(ReduceOp::sum, values).item<float>(); });
    EXPECT_EQ(sum, 3);
  });
}

TEST_F(Context, OfAnotherReplicaOrAnEndedRunIsAnError) {
  const auto contexts = strategy.run([] { return get_replica_context(); });
  const auto call = [&](size_t r) { contexts[r].merge_call([](Strategy&) {}); };
  EXPECT_THAT(error_of([&] { call(1); }),
              AllOf(HasSubstr("failed_precondition: merge_call: the context is that of replica 1"),
                    HasSubstr("replica_context_test.cpp:"), HasSubstr("outside of its run")));
  EXPECT_THAT(error_of([&] { strategy.run([&] { call(0); }); }), HasSubstr("call get_replica_context() where"));
  MirroredStrategy other({.devices = test_devices(3)});
  EXPECT_THAT(error_of([&] { other.run([&] { call(static_cast<size_t>(replica())); }); }),
              HasSubstr("failed_precondition"));
}

TEST_F(Context, AScopeInAReplicasFunctionIsAnError) {
  EXPECT_THAT(error_of([&] { strategy.run([&] { auto scope = strategy.scope(); }); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("strategy.build(f)")));
}

TEST_F(MergeCall, GathersArgumentsAndGivesEachReplicaTheResult) {
  const auto sums = strategy.run([] {
    return get_replica_context().merge_call(
        [](Strategy&, const PerReplica<int>& own, const PerReplica<std::string>& text) {
          return text[0] + std::to_string(own[0] + 10 * own[1] + 100 * own[2]);
        },
        replica() + 1, std::string("id "));
  });
  EXPECT_THAT(sums.values(), Each("id 321"));
}

TEST_F(MergeCall, DealsOutAPerReplicaResult) {
  const auto turned = strategy.run([] {
    return get_replica_context().merge_call(
        [](Strategy&, const PerReplica<int>& own) {
          return PerReplica<int>{own[1], own[2], own[0]};
        },
        replica());
  });
  EXPECT_THAT(turned.values(), ElementsAre(1, 2, 0));
}

TEST_F(MergeCall, DealsOutThePartsOfAStructure) {
  strategy.run([] {
    const auto [own, common] = get_replica_context().merge_call([](Strategy&) {
      return std::pair(PerReplica<int>{1, 2, 3}, std::string("all"));
    });
    EXPECT_EQ(own, replica() + 1);
    EXPECT_EQ(common, "all");
  });
}

TEST_F(MergeCall, UnequalNumbersAreAnErrorThatNamesTheCall) {
  const auto once_too_often = [] {
    const int calls = replica() == 1 ? 2 : 1;
    for (int i = 0; i < calls; ++i) get_replica_context().merge_call([](Strategy&) {});
  };
  EXPECT_THAT(
      error_of([&] { strategy.run(once_too_often); }),
      AllOf(HasSubstr("failed_precondition: the replicas do not meet"), HasSubstr("replicas [1] wait in merge_call"),
            HasSubstr("replicas [0, 2] have finished"), HasSubstr("replica_context_test.cpp:")));
  EXPECT_THAT(strategy.run([] { return replica(); }).values(), ElementsAre(0, 1, 2));
}

TEST_F(MergeCall, RunsOnceInGlobalView) {
  const Tensor total = strategy.build([] { return at::zeros({}, at::kDouble); });
  int calls = 0;
  const auto seen = strategy.run([&] {
    get_replica_context().merge_call([&](Strategy&) {
      ++calls;
      EXPECT_TRUE(is_mesh_tensor(total + 1));
      total.add_(2);
    });
    return total.item<double>();
  });
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(seen.values(), Each(2));
}

TEST_F(MergeCall, ThrowsInEveryReplicaWhatItsFunctionThrows) {
  std::atomic<int> caught{0};
  const auto failing = [](Strategy&) { throw std::out_of_range("mine"); };
  strategy.run([&] {
    try {
      get_replica_context().merge_call(failing);
    } catch (const std::out_of_range&) {
      ++caught;
    }
  });
  EXPECT_EQ(caught, 3);
  try {
    strategy.run([&] { get_replica_context().merge_call(failing); });
    FAIL();
  } catch (const std::out_of_range&) {
    EXPECT_EQ(replica_of(std::current_exception()), -1);  // all of them together
  }
}

TEST_F(MergeCall, OfDifferentFunctionsDoesNotMeet) {
  const auto different = [&] {
    if (replica() == 1) return get_replica_context().merge_call([](Strategy&, PerReplica<int>) { return 1; }, 5);
    return get_replica_context().merge_call([](Strategy&, PerReplica<std::string>) { return 2; }, std::string());
  };
  EXPECT_THAT(error_of([&] { strategy.run(different); }),
              AllOf(HasSubstr("failed_precondition: the replicas do not meet"), HasSubstr("replicas [0, 2] wait in"),
                    HasSubstr("replicas [1] wait in")));
}

TEST_F(MergeCall, UnderTheDefaultStrategyIsThePlainCall) {
  EXPECT_EQ(get_replica_context().merge_call([](Strategy&, const PerReplica<int>& own) { return own[0] + 1; }, 4), 5);
}

TEST_F(AllReduce, GivesTheSumOrTheMeanToEveryReplica) {
  for (const auto& [op, wanted] : {std::pair(ReduceOp::sum, 6.0), std::pair(ReduceOp::mean, 2.0)}) {
    const auto results = strategy.run([&] { return get_replica_context().all_reduce(op, own_value()); });
    for (const Tensor& result : results) EXPECT_THAT(numbers(result), ElementsAre(wanted, wanted));
  }
}

TEST_F(AllReduce, KeepsIntegersAndTheirMeanIsAFloat) {
  const auto one = [] { return at::ones({2}, at::kInt); };
  const auto sums = strategy.run([&] { return get_replica_context().all_reduce(ReduceOp::sum, one()); });
  EXPECT_EQ(sums[1].scalar_type(), at::kInt);
  EXPECT_THAT(numbers(sums[1]), ElementsAre(3, 3));
  const auto means = strategy.run([&] { return get_replica_context().all_reduce(ReduceOp::mean, one()); });
  EXPECT_EQ(means[2].scalar_type(), at::kDouble);
}

TEST_F(AllReduce, RefusesUnequalShapesAndDtypes) {
  EXPECT_THAT(
      error_of([&] {
        strategy.run([] { get_replica_context().all_reduce(ReduceOp::sum, at::ones({replica() == 2 ? 2 : 1})); });
      }),
      AllOf(HasSubstr("invalid_argument"), HasSubstr("replica 2"), HasSubstr("[2]"), HasSubstr("[1]")));
  EXPECT_THAT(error_of([&] {
                strategy.run([] {
                  const auto dtype = replica() == 1 ? at::kFloat : at::kDouble;
                  get_replica_context().all_reduce(ReduceOp::sum, at::ones({1}, dtype));
                });
              }),
              HasSubstr("invalid_argument"));
}

TEST_F(AllReduce, ResultsAreEachReplicasOwn) {
  const auto results = strategy.run([] {
    const Tensor sum = get_replica_context().all_reduce(ReduceOp::sum, own_value());
    sum.mul_(replica());
    return sum;
  });
  EXPECT_THAT(numbers(results[0]), Each(0));
  EXPECT_THAT(numbers(results[1]), Each(6));
  EXPECT_THAT(numbers(results[2]), Each(12));
}

// loss_r = (r + 1) · all_reduce(x_r²): the gradient of the sum of all losses at x_r is 2 x_r · Σ (s + 1), for the mean
// a third of it.
TEST_F(AllReduce, GradientIsTheReductionOfTheIncomingOnes) {
  for (const auto& [op, wanted] : {std::pair(ReduceOp::sum, 6.0), std::pair(ReduceOp::mean, 2.0)}) {
    const auto gradients = strategy.run([&] {
      Tensor x = own_value().set_requires_grad(true);
      (get_replica_context().all_reduce(op, x.square()) * (replica() + 1)).sum().backward();
      return x.grad();
    });
    for (size_t r = 0; r < 3; ++r) EXPECT_THAT(numbers(gradients[r]), Each(2.0 * static_cast<double>(r + 1) * wanted));
  }
}

TEST_F(AllReduce, GradientReachesAVariable) {
  const Tensor weight = strategy.build([] { return at::full({2}, 5, at::kDouble).set_requires_grad(true); });
  const auto own = strategy.run([&] {
    const Tensor sum = get_replica_context().all_reduce(ReduceOp::sum, weight);
    EXPECT_THAT(numbers(sum.detach()), Each(15));
    (sum * (replica() + 1)).sum().backward();
    return weight.grad().clone();
  });
  for (const Tensor& gradient : own) EXPECT_THAT(numbers(gradient), Each(6));
  EXPECT_THAT(numbers(gather(weight.grad())), Each(18));
}

TEST_F(AllReduce, RecordsNothingWithoutGradMode) {
  const at::NoGradGuard no_grad;
  strategy.run([] {
    const Tensor x = own_value().set_requires_grad(true);
    EXPECT_FALSE(get_replica_context().all_reduce(ReduceOp::sum, x).requires_grad());
  });
}

TEST_F(AllReduce, BackwardOutsideOfRunIsAnError) {
  const auto losses = strategy.run([] {
    const Tensor x = own_value().set_requires_grad(true);
    return get_replica_context().all_reduce(ReduceOp::sum, x).sum();
  });
  EXPECT_THAT(error_of([&] { losses[0].backward(); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("backward() inside run")));
}

TEST_F(AllReduce, UnderTheDefaultStrategyIsTheValueItself) {
  const Tensor x = at::ones({2}).set_requires_grad(true);
  get_replica_context().all_reduce(ReduceOp::mean, x).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(1, 1));
}

using Named = std::map<std::string, std::pair<Tensor, Tensor>>;

TEST_F(AllReduce, OfAStructureReducesEachLeafWithItsGradient) {
  const auto gradients = strategy.run([] {
    const Tensor x = own_value().set_requires_grad(true), y = own_value(2).set_requires_grad(true);
    const Named sums =
        get_replica_context().all_reduce(ReduceOp::sum, Named{{"a", {x, at::ones({1}, at::kLong)}}, {"b", {y, x}}});
    EXPECT_THAT(numbers(sums.at("b").first.detach()), Each(12));
    EXPECT_FALSE(sums.at("a").second.requires_grad());
    (sums.at("a").first * (replica() + 1) + sums.at("b").first * 10).sum().backward();
    return std::pair(x.grad(), y.grad());
  });
  for (const auto& [x, y] : gradients) {
    EXPECT_THAT(numbers(x), Each(6));
    EXPECT_THAT(numbers(y), Each(30));
  }
}

TEST_F(AllReduce, RefusesUnequalStructuresAndInt32AmongOthers) {
  const auto refusal = [&](const auto& nest_of) {
    return error_of([&] { strategy.run([&] { get_replica_context().all_reduce(ReduceOp::sum, nest_of()); }); });
  };
  EXPECT_THAT(refusal([] { return std::vector<Tensor>(replica() == 1 ? 2 : 1, at::ones({1})); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("replica 1 has 2 tensors in the structure [2]")));
  EXPECT_THAT(refusal([] { return std::pair(at::ones({1}, at::kInt), at::ones({1})); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("int32")));
}

TEST_F(AllReduce, OfSparseTensorsJoinsThemAndHasNoGradient) {
  const auto own = [] {
    return at::sparse_coo_tensor(at::full({1, 1}, replica(), at::kLong), at::ones({1, 2}), {8, 2});
  };
  const auto sums = strategy.run([&] { return get_replica_context().all_reduce(ReduceOp::sum, own()); });
  EXPECT_THAT(numbers(sums[1]._indices()), ElementsAre(0, 1, 2));
  EXPECT_THAT(error_of([&] {
                strategy.run([&] { get_replica_context().all_reduce(ReduceOp::sum, own().set_requires_grad(true)); });
              }),
              AllOf(HasSubstr("unimplemented"), HasSubstr("sparse")));
}

TEST_F(AllReduce, HasASecondDerivative) {
  const auto seconds = strategy.run([] {
    const Tensor x = own_value().set_requires_grad(true);
    const Tensor loss = get_replica_context().all_reduce(ReduceOp::sum, x.pow(3)).sum();
    const Tensor first = torch::autograd::grad({loss}, {x}, {}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.sum()}, {x})[0];
  });
  for (size_t r = 0; r < 3; ++r) EXPECT_THAT(numbers(seconds[r]), Each(3 * 6 * static_cast<double>(r + 1)));
}

class AllGather : public ThreeReplicas {};

// Replica r brings r + 1 rows of the value r + 1.
Tensor own_rows() {
  const int number = get_replica_context().replica_id_in_sync_group() + 1;
  return at::full({number, 2}, number, at::kDouble);
}

TEST_F(AllGather, JoinsUnevenPartsOnEveryReplica) {
  const auto results = strategy.run([] { return get_replica_context().all_gather(own_rows(), 0); });
  for (const Tensor& result : results) EXPECT_THAT(numbers(result.select(1, 0)), ElementsAre(1, 2, 2, 3, 3, 3));
  results[0].fill_(0);
  EXPECT_EQ(results[1].sum().item<double>(), 2 * (1 + 4 + 9));  // each has its own
}

// loss_r = (r + 1) · sum(gathered²): of the sum of all losses, d/dx_r = 2 x_r · Σ (s + 1).
TEST_F(AllGather, GradientIsTheOwnPartOfTheSum) {
  for (const int64_t axis : {0, 1}) {
    const auto gradients = strategy.run([&] {
      const Tensor x = (axis == 0 ? own_rows() : own_rows().t()).detach().set_requires_grad(true);
      (get_replica_context().all_gather(x, axis).square() * (replica() + 1)).sum().backward();
      EXPECT_EQ(x.grad().sizes(), x.sizes());
      return x.grad();
    });
    for (size_t r = 0; r < 3; ++r) EXPECT_THAT(numbers(gradients[r]), Each(2.0 * static_cast<double>(r + 1) * 6));
  }
}

TEST_F(AllGather, OfAStructureGoesLeafByLeaf) {
  const auto results = strategy.run(
      [] { return get_replica_context().all_gather(std::pair(own_rows(), at::full({1}, replica(), at::kLong)), 0); });
  EXPECT_EQ(results[2].first.size(0), 6);
  EXPECT_THAT(numbers(results[2].second), ElementsAre(0, 1, 2));
}

TEST_F(AllGather, RefusesWhatCannotBeJoined) {
  const auto refusal = [&](const auto& own, int64_t axis) {
    return error_of([&] { strategy.run([&] { get_replica_context().all_gather(own(), axis); }); });
  };
  EXPECT_THAT(refusal([] { return at::ones({}); }, 0), HasSubstr("invalid_argument"));
  EXPECT_THAT(refusal([] { return at::ones({1}); }, 1), HasSubstr("out_of_range"));
  EXPECT_THAT(refusal([] { return at::ones({1, replica() + 1}); }, 0), HasSubstr("invalid_argument"));
}

TEST_F(AllGather, BackwardOutsideOfRunIsAnError) {
  const auto losses = strategy.run([] {
    const Tensor x = own_value().set_requires_grad(true);
    return get_replica_context().all_gather(x, 0).sum();
  });
  EXPECT_THAT(error_of([&] { losses[0].backward(); }),
              AllOf(HasSubstr("failed_precondition: all_gather"), HasSubstr("backward() inside run")));
}

TEST_F(AllGather, UnderTheDefaultStrategyIsACopy) {
  const Tensor x = at::ones({2}).set_requires_grad(true);
  const Tensor gathered = get_replica_context().all_gather(x, 0);
  EXPECT_FALSE(gathered.is_alias_of(x));
  gathered.sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(1, 1));
}

}  // namespace
}  // namespace tutti
