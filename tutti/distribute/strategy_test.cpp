#include "tutti/distribute/strategy.h"
#include "tests/support/test_devices.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <latch>
#include <list>
#include <thread>

#include "tests/support/dataset_values.h"
#include "tests/support/three_replicas.h"
#include "tutti/distribute/default_strategy.h"
#include "tutti/distribute/mirrored_strategy.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class Run : public ThreeReplicas {
 protected:
  void expect_usable() {
    EXPECT_THAT(strategy.run([] { return replica(); }).values(), ElementsAre(0, 1, 2));
  }
};

class Distribute : public Run {};

TEST_F(Run, GivesEachReplicaItsValueAndAllThePlainOne) {
  const auto sums = strategy.run([](int own, int common) { return own + common; }, PerReplica<int>{1, 2, 3}, 10);
  EXPECT_THAT(sums.values(), ElementsAre(11, 12, 13));
}

TEST_F(Run, ReturnsResultsInReplicaOrder) {
  const auto ids = strategy.run([] {
    std::this_thread::sleep_for(2ms * (3 - replica()));
    return replica();
  });
  EXPECT_THAT(ids.values(), ElementsAre(0, 1, 2));
}

TEST_F(Run, OfAVoidFunctionReturnsNothing) {
  std::atomic<int> calls{0};
  static_assert(std::is_void_v<decltype(strategy.run([&] { ++calls; }))>);
  strategy.run([&] { ++calls; });
  EXPECT_EQ(calls, 3);
}

TEST_F(Run, TakesResultsThatCanOnlyBeMovedAndBooleans) {
  const auto owned = strategy.run([] { return std::make_unique<int>(replica()); });
  EXPECT_EQ(*owned[2], 2);
  const auto first = strategy.run([] { return replica() == 0; });
  EXPECT_TRUE(first[0]);
  EXPECT_FALSE(first[1]);
  EXPECT_THAT(strategy.run([](bool value) { return value ? 1 : 0; }, first).values(), ElementsAre(1, 0, 0));
}

TEST_F(Run, HandsATupleOverInPartsWhereTheFunctionTakesThem) {
  const PerReplica<std::tuple<int, int>> pairs{{1, 10}, {2, 20}, {3, 30}};
  EXPECT_THAT(strategy.run([](int a, int b) { return a + b; }, pairs).values(), ElementsAre(11, 22, 33));
  EXPECT_THAT(strategy.run([](const std::tuple<int, int>& both) { return std::get<1>(both); }, pairs).values(),
              ElementsAre(10, 20, 30));
  EXPECT_THAT(strategy.run([](int a, int b) { return a * b; }, std::pair(3, 4)).values(), ElementsAre(12, 12, 12));
}

TEST_F(Run, HandsTuplesOverInPartsBesideOtherArguments) {
  const PerReplica<std::tuple<int, int>> pairs{{1, 10}, {2, 20}, {3, 30}};
  const auto sums = strategy.run([](int a, int b, int c) { return a + b + c; }, pairs, 100);
  EXPECT_THAT(sums.values(), ElementsAre(111, 122, 133));
  const auto more = strategy.run([](int a, int b, int c, int d) { return a + b + c + d; }, pairs, pairs);
  EXPECT_THAT(more.values(), ElementsAre(22, 44, 66));
}

TEST_F(Run, GivesEachReplicaItsValuesInAStructure) {
  const std::map<std::string, PerReplica<int>> named{{"own", {1, 2, 3}}};
  const auto sums = strategy.run([](const std::map<std::string, int>& own) { return own.at("own") * 2; }, named);
  EXPECT_THAT(sums.values(), ElementsAre(2, 4, 6));
}

TEST_F(Run, ReturnsTuplesThatStructuredBindingsTakeApart) {
  const auto [id, text] = strategy.run([] { return std::tuple(replica(), std::to_string(replica())); });
  EXPECT_THAT(id.values(), ElementsAre(0, 1, 2));
  EXPECT_THAT(text.values(), ElementsAre("0", "1", "2"));
}

TEST_F(Run, RefusesValuesForAnotherNumberOfReplicas) {
  std::atomic<int> calls{0};
  EXPECT_THAT(error_of([&] {
                strategy.run([&](int) { ++calls; }, PerReplica<int>{1, 2});
              }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("2 replicas; the strategy has 3")));
  EXPECT_EQ(calls, 0);
}

TEST_F(Run, LetsReplicasWorkAtOnceOneOfThemOnTheCallersThread) {
  std::latch all_here(3);
  const auto threads = strategy.run([&] {
    all_here.arrive_and_wait();
    return std::this_thread::get_id();
  });
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_NE(threads[1], threads[0]);
  EXPECT_NE(threads[2], threads[1]);
}

TEST_F(Run, OneAtATimeLetsNoTwoReplicasComputeAtOnce) {
  std::atomic<int> computing{0};
  std::atomic<bool> together{false};
  const auto compute = [&] {
    if (++computing > 1) together = true;
    std::this_thread::sleep_for(1ms);
    --computing;
  };
  const auto sums = strategy.run(RunOptions{.one_at_a_time = true}, [&] {
    compute();
    const Tensor sum = get_replica_context().all_reduce(ReduceOp::sum, at::ones({}));
    compute();
    return sum.item<float>();
  });
  EXPECT_FALSE(together);
  EXPECT_THAT(sums.values(), ElementsAre(3, 3, 3));
}

TEST_F(Run, CarriesTheCallersGradAndInferenceModes) {
  const auto modes = [&] {
    return strategy
        .run([] { return (at::GradMode::is_enabled() ? 1 : 0) + (c10::InferenceMode::is_enabled() ? 2 : 0); })
        .values();
  };
  EXPECT_THAT(modes(), ElementsAre(1, 1, 1));
  {
    const at::NoGradGuard guard;
    EXPECT_THAT(modes(), ElementsAre(0, 0, 0));
  }
  {
    const c10::InferenceMode guard;
    EXPECT_THAT(modes(), ElementsAre(2, 2, 2));
  }
  EXPECT_THAT(modes(), ElementsAre(1, 1, 1));
}

TEST_F(Run, LeavesTheCallersModesAsTheyWere) {
  strategy.run([] { at::GradMode::set_enabled(false); });
  const bool enabled = at::GradMode::is_enabled();
  at::GradMode::set_enabled(true);
  EXPECT_TRUE(enabled);
  EXPECT_THAT(strategy.run([] { return at::GradMode::is_enabled() ? 1 : 0; }).values(), ElementsAre(1, 1, 1));
}

TEST_F(Run, SuspendsTheScope) {
  const auto scope = strategy.scope();
  strategy.run([] {
    EXPECT_FALSE(in_cross_replica_context());
    EXPECT_EQ(at::ones({2}).key_set().has(c10::DispatchKey::PrivateUse3), false);
  });
  EXPECT_TRUE(in_cross_replica_context());
  EXPECT_TRUE(at::ones({2}).key_set().has(c10::DispatchKey::PrivateUse3));
}

TEST_F(Run, InARunIsAnError) {
  EXPECT_THAT(error_of([&] { strategy.run([&] { strategy.run([] {}); }); }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("a run cannot hold another")));
  MirroredStrategy other({.devices = test_devices(2)});
  EXPECT_THAT(error_of([&] { strategy.run([&] { other.run([] {}); }); }), HasSubstr("failed_precondition"));
  expect_usable();
}

TEST_F(Run, WhereReplicasMeetIsAnError) {
  EXPECT_THAT(error_of([&] {
                strategy.run([&] { get_replica_context().merge_call([&](Strategy&) { strategy.run([] {}); }); });
              }),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("a run cannot hold another")));
  EXPECT_THAT(error_of([&] { strategy.run([&] { strategy.build([&] { strategy.run([] {}); }); }); }),
              HasSubstr("failed_precondition"));
  expect_usable();
}

TEST_F(Run, FromTwoHostThreadsTakesTurns) {
  std::atomic<int> inside[2] = {};
  std::atomic<bool> together{false};
  const auto host = [&](int which) {
    for (int i = 0; i < 50; ++i)
      strategy.run([&] {
        ++inside[which];
        if (inside[1 - which] > 0) together = true;
        const Tensor sum = get_replica_context().all_reduce(ReduceOp::sum, at::full({}, which));
        EXPECT_EQ(sum.item<float>(), 3.0F * static_cast<float>(which));
        --inside[which];
      });
  };
  { const std::jthread one(host, 0), other(host, 1); }
  EXPECT_FALSE(together);
}

TEST_F(Run, OfOneReplicaSpeaksPerReplicaToo) {
  MirroredStrategy one({.devices = test_devices(1)});
  EXPECT_THAT(one.run([](int a) { return a + replica(); }, PerReplica<int>{5}).values(), ElementsAre(5));
  EXPECT_THAT(error_of([&] { one.run([&] { one.run([] {}); }); }), HasSubstr("failed_precondition"));
}

TEST_F(Run, OfTheDefaultStrategyIsThePlainCall) {
  Strategy& plain = get_strategy();
  EXPECT_EQ(&plain, &default_strategy());
  EXPECT_EQ(plain.num_replicas_in_sync(), 1);
  EXPECT_THAT(plain.run([](int a) { return a + replica(); }, 5).values(), ElementsAre(5));
  EXPECT_EQ(numbers(plain.distribute(at::arange(3))[0]), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(plain.build([] { return 7; }), 7);
}

TEST_F(Distribute, CutsTensorsAndTuplesAlongTheBatch) {
  EXPECT_THAT(strategy.run([](const Tensor& x) { return x.numel(); }, strategy.distribute(at::arange(7))).values(),
              ElementsAre(3, 3, 1));
  EXPECT_THAT(strategy.run([](const Tensor& x) { return x.numel(); }, strategy.distribute(at::arange(4))).values(),
              ElementsAre(2, 2, 0));
  const auto sums = strategy.run([](const Tensor& x, const Tensor& y) { return (x.sum() + y.sum()).item<int64_t>(); },
                                 strategy.distribute(std::tuple(at::arange(3), at::arange(6).view({3, 2}))));
  EXPECT_THAT(sums.values(), ElementsAre(0 + 1, 1 + 5, 2 + 9));
}

TEST_F(Distribute, RefusesWhatHasNoBatchDimension) {
  EXPECT_THAT(error_of([&] { strategy.distribute(at::ones({})); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([&] { strategy.distribute(std::tuple(at::ones({3}), at::ones({4}))); }),
              HasSubstr("invalid_argument"));
}

TEST_F(Distribute, DividesTheBatchesOfALoader) {
  std::list<std::tuple<Tensor, Tensor>> loader{{at::arange(3), at::arange(3)}, {at::arange(2), at::arange(2)}};
  std::vector<std::vector<int64_t>> rows;
  for (const auto& batch : strategy.distribute(loader))
    rows.push_back(strategy.run([](const Tensor& x, const Tensor&) { return x.size(0); }, batch).values());
  EXPECT_THAT(rows, ElementsAre(ElementsAre(1, 1, 1), ElementsAre(1, 1, 0)));
}

TEST_F(Distribute, ADatasetIsADatasetWhetherConstOrNot) {
  auto dataset = data::range(3).batch(3);
  static_assert(std::is_same_v<decltype(strategy.distribute(dataset)), data::DistributedDataset<Tensor>>);
  static_assert(
      std::is_same_v<decltype(strategy.distribute(std::as_const(dataset))), data::DistributedDataset<Tensor>>);
}

TEST_F(Distribute, FromAFunctionCallsItForEachPipelineOutsideOfScopes) {
  const auto pipelines = [&](const data::InputOptions& options) {
    std::vector<std::vector<int>> contexts;
    const auto scope = strategy.scope();
    const auto dataset = strategy.distribute_datasets_from_function(
        [&](const data::InputContext& context) {
          EXPECT_FALSE(at::zeros({}).key_set().has(c10::DispatchKey::PrivateUse3));
          contexts.push_back({context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync});
          const int64_t first = 10 * context.input_pipeline_id;
          return data::range(first, first + 3).batch(1);
        },
        options);
    std::vector<double> values;
    const auto first_step = dataset.begin();
    for (const Tensor& value : first_step->values()) values.push_back(value.item<double>());
    return std::pair(contexts, values);
  };
  EXPECT_THAT(pipelines({}), Pair(ElementsAre(ElementsAre(1, 0, 3)), ElementsAre(0, 1, 2)));
  EXPECT_THAT(
      pipelines({.replication_mode = data::InputReplicationMode::per_replica}),
      Pair(ElementsAre(ElementsAre(3, 0, 3), ElementsAre(3, 1, 3), ElementsAre(3, 2, 3)), ElementsAre(0, 10, 20)));
}

TEST_F(Distribute, RefusesInputOptionsAsTensorFlowDoes) {
  const data::InputOptions per_replica{.replication_mode = data::InputReplicationMode::per_replica};
  const auto make = [](const data::InputContext&) { return data::range(3).batch(1); };
  EXPECT_THAT(error_of([&] { strategy.distribute(data::range(3).batch(3), per_replica); }),
              HasSubstr("unimplemented: distribute: InputReplicationMode::per_replica"));
  EXPECT_THAT(error_of([&] { get_strategy().distribute_datasets_from_function(make, per_replica); }),
              HasSubstr("unimplemented: distribute_datasets_from_function"));
  EXPECT_THAT(error_of([&] { strategy.run([&] { strategy.distribute_datasets_from_function(make); }); }),
              HasSubstr("failed_precondition: distribute_datasets_from_function"));
}

TEST_F(Distribute, LocalResultsAreTheValuesOfTheReplicas) {
  EXPECT_THAT(strategy.local_results(PerReplica<int>{4, 5, 6}), ElementsAre(4, 5, 6));
}

TEST_F(Distribute, LocalResultsOfAStructureAreAStructureForEachReplica) {
  const std::pair nested(PerReplica<int>{4, 5, 6}, std::string("same"));
  EXPECT_THAT(strategy.local_results(nested), ElementsAre(Pair(4, "same"), Pair(5, "same"), Pair(6, "same")));
  EXPECT_THAT(error_of([&] {
                strategy.local_results(std::tuple(PerReplica<int>{1, 2}));
              }),
              HasSubstr("invalid_argument: local_results: an argument has values for 2 replicas"));
}

TEST_F(Distribute, LocalResultsOfAnyOtherValueAreTheValueAlone) {
  EXPECT_THAT(strategy.local_results(7), ElementsAre(7));
}

TEST_F(Distribute, ValuesFromAFunctionAreEachReplicasOwn) {
  const auto scope = strategy.scope();
  const auto values = strategy.values_from_function([](ValueContext context) {
    return at::full({}, static_cast<float>(10 * context.replica_id_in_sync_group + context.num_replicas_in_sync));
  });
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(values[r].item<float>(), 10 * static_cast<float>(r) + 3);
    EXPECT_FALSE(values[r].key_set().has(c10::DispatchKey::PrivateUse3));
  }
}

}  // namespace
}  // namespace tutti
