#include "tutti/data/distributed_dataset.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

std::vector<Numbers> steps(const DistributedDataset<Tensor>& dataset) {
  std::vector<Numbers> all;
  for (const auto& batch : dataset) {
    all.emplace_back();
    for (const Tensor& value : batch) all.back().push_back(numbers(value));
  }
  return all;
}

TEST(DistributedDataset, CutsBatchesByTheCeiling) {
  EXPECT_EQ(steps({range(10).batch(8), 2}), (std::vector<Numbers>{{{0, 1, 2, 3}, {4, 5, 6, 7}}, {{8}, {9}}}));
  EXPECT_EQ(steps({range(3).batch(2), 4}), (std::vector<Numbers>{{{0}, {1}, {}, {}}, {{2}, {}, {}, {}}}));
}

TEST(DistributedDataset, BalancesUnderOtherPolicies) {
  const auto off = range(9).batch(4).with_options({.auto_shard_policy = AutoShardPolicy::off});
  EXPECT_EQ(steps({off, 3}), (std::vector<Numbers>{{{0, 1}, {2}, {3}}, {{4, 5}, {6}, {7}}, {{8}, {}, {}}}));
}

TEST(DistributedDataset, SlicesAreViewsOfTheBatch) {
  const Tensor source = at::arange(8);
  const auto dataset = from_tensor_slices(source).batch(8);
  const auto batch = *DistributedDataset(dataset, 2).begin();
  EXPECT_EQ(batch[0].const_data_ptr(), source.const_data_ptr());
  EXPECT_EQ(batch[1].const_data_ptr(), source.narrow(0, 4, 4).const_data_ptr());
}

TEST(DistributedDataset, EmptySlicesKeepShapeAndDtype) {
  const auto dataset = from_tensor_slices(at::ones({1, 3, 2}, at::kInt), at::ones({1})).batch(4);
  for (const auto& batch : DistributedDataset(dataset, 2)) {
    const auto& [x, y] = batch[1];
    EXPECT_EQ(x.sizes(), at::IntArrayRef({0, 3, 2}));
    EXPECT_EQ(x.scalar_type(), at::kInt);
    EXPECT_EQ(y.sizes(), at::IntArrayRef({0}));
  }
}

TEST(DistributedDataset, OneReplicaGetsTheElementsThemselves) {
  EXPECT_EQ(steps({range(2), 1}), (std::vector<Numbers>{{{0}}, {{1}}}));
  EXPECT_EQ(steps({range(3).batch(2), 1}), (std::vector<Numbers>{{{0, 1}}, {{2}}}));
}

TEST(DistributedDataset, AsksForBatches) {
  EXPECT_THAT(error_of([] { DistributedDataset(range(4), 2); }), HasSubstr("call batch(global_batch_size)"));
  const auto hidden = range(4).map([](const Tensor& x) { return x; });
  EXPECT_THAT(error_of([&] { steps({hidden, 2}); }), HasSubstr("invalid_argument: distribute: a leaf is a scalar"));
  EXPECT_THAT(error_of([] { DistributedDataset(range(4).batch(2), 0); }), HasSubstr("0 replicas"));
}

TEST(DistributedDataset, PlacesEachLeafForItsReplica) {
  const auto dataset = from_tensor_slices(at::arange(4), at::arange(4)).batch(4);
  const Placer placer = [](const Tensor& leaf, int replica_id) { return leaf + 100 * replica_id; };
  const auto batch = *DistributedDataset(dataset, 2, placer).begin();
  EXPECT_EQ(numbers(std::get<1>(batch[0])), (std::vector<double>{0, 1}));
  EXPECT_EQ(numbers(std::get<1>(batch[1])), (std::vector<double>{102, 103}));
}

using Pipelines = std::vector<Dataset<Tensor>>;

TEST(DistributedDataset, OfPipelinesGivesWholeElements) {
  EXPECT_EQ(steps({Pipelines({range(9).batch(2)}), 2}),
            (std::vector<Numbers>{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {}}}));
  EXPECT_EQ(steps({Pipelines({range(2).batch(1), range(10, 13).batch(1)}), 2}),
            (std::vector<Numbers>{{{0}, {10}}, {{1}, {11}}, {{}, {12}}}));
  EXPECT_EQ(steps({Pipelines({range(3).batch(1), range(10, 14).batch(1)}), 4}),
            (std::vector<Numbers>{{{0}, {1}, {10}, {11}}, {{2}, {}, {12}, {13}}}));
}

TEST(DistributedDataset, OfPipelinesLeavesOutAStepThatIsNotWholeIfElementsAre) {
  const BatchOptions whole{.drop_remainder = true};
  EXPECT_EQ(steps({Pipelines({range(9).batch(2, whole)}), 3}), (std::vector<Numbers>{{{0, 1}, {2, 3}, {4, 5}}}));
  EXPECT_EQ(steps({Pipelines({range(3)}), 2}), (std::vector<Numbers>{{{0}, {1}}}));
}

TEST(DistributedDataset, OfPipelinesRefusesWhatCannotBeDealt) {
  EXPECT_THAT(error_of([] { DistributedDataset(Pipelines{}, 2); }), HasSubstr("0 pipelines for 2 replicas"));
  EXPECT_THAT(error_of([] { DistributedDataset(Pipelines({range(2), range(2)}), 3); }), HasSubstr("2 pipelines for 3"));
  const auto scalars = from_generator(
      [] { return [n = 0]() mutable { return n < 3 ? std::optional(at::scalar_tensor(n++)) : std::nullopt; }; });
  EXPECT_THAT(error_of([&] { steps({Pipelines({scalars}), 2}); }), HasSubstr("distribute: a leaf is a scalar"));
}

TEST(DistributedDataset, ComputesAheadWhereItIsAskedTo) {
  std::atomic<int> computed = 0;
  const auto counted = range(8).batch(2).map([&](const Tensor& x) {
    ++computed;
    return x;
  });
  const DistributedDataset<Tensor> ahead(counted, 2, {}, 2);
  EXPECT_EQ(steps(ahead), steps({counted, 2}));
  computed = 0;
  auto iterator = ahead.begin();
  iterator.next();
  while (computed < 2) std::this_thread::yield();
}

TEST(DistributedIterator, GivesStepsOneByOneUntilTheEnd) {
  const DistributedDataset dataset(range(4).batch(2), 2);
  auto iterator = dataset.begin();
  EXPECT_EQ(numbers((*iterator)[1]), std::vector<double>{1});
  EXPECT_EQ(numbers(iterator.next()[1]), std::vector<double>{1});
  EXPECT_EQ(numbers(iterator.next_as_optional().value()[0]), std::vector<double>{2});
  EXPECT_FALSE(iterator.next_as_optional().has_value());
  EXPECT_THAT(error_of([&] { iterator.next(); }), HasSubstr("out_of_range"));
  EXPECT_TRUE(iterator == std::default_sentinel);
}

TEST(DistributedIterator, AnErrorBelongsToItsStep) {
  const auto dataset = range(2).map([](const Tensor& x) {
    if (x.item<int64_t>() == 1) throw std::domain_error("one");
    return x;
  });
  const DistributedDataset distributed(dataset.batch(1), 2);
  auto iterator = distributed.begin();
  EXPECT_NO_THROW(iterator.next());
  EXPECT_THROW(iterator.next(), std::domain_error);
}

TEST(DistributedIterator, GoesOnBehindAnErrorAndLosesNothing) {
  const auto dataset = range(12).map([](const Tensor& x) {
    if (x.item<int64_t>() == 5) throw std::domain_error("five");
    return x;
  });
  std::vector<double> seen;
  int num_errors = 0;
  const DistributedDataset distributed(dataset.batch(2), 2);
  for (auto iterator = distributed.begin();;) {
    try {
      if (iterator == std::default_sentinel) break;
      for (const Tensor& value : *iterator)
        for (const double number : numbers(value)) seen.push_back(number);
    } catch (const std::domain_error&) {
      ++num_errors;
      EXPECT_FALSE(iterator == std::default_sentinel);
      EXPECT_THAT(error_of([&] { *iterator; }), HasSubstr("the step has thrown, so that there is none; go on with ++"));
    }
    ++iterator;
  }
  EXPECT_EQ(num_errors, 1);
  EXPECT_EQ(seen, (std::vector<double>{0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11}));
  auto at_end = DistributedDataset(range(0).batch(1), 2).begin();
  EXPECT_THAT(error_of([&] { *at_end; }), HasSubstr("the iterator is at its end"));
}

// A dataset of steps in which the last has fewer rows than replicas.
Dataset<Tensor> shuffled_batches(AutoShardPolicy policy) {
  return range(22).shuffle(9, {.seed = 1}).repeat(2).batch(7).prefetch(2).with_options({.auto_shard_policy = policy});
}

std::vector<Numbers> rest(DistributedIterator<Tensor>& iterator) {
  std::vector<Numbers> all;
  for (; iterator != std::default_sentinel; ++iterator) {
    all.emplace_back();
    for (const Tensor& value : *iterator) all.back().push_back(numbers(value));
  }
  return all;
}

TEST(DistributedIteratorState, GoesOnFromEveryStep) {
  for (const auto policy : {AutoShardPolicy::auto_, AutoShardPolicy::off})
    for (const int replicas : {1, 2, 3})
      for (const bool looked_at : {false, true}) {
        SCOPED_TRACE(replicas);
        const auto make = [&] { return DistributedDataset(shuffled_batches(policy), replicas); };
        const std::vector<Numbers> whole = steps(make());
        auto iterator = make().begin();
        for (auto step = whole.begin();; ++step, ++iterator) {
          if (looked_at) {
            EXPECT_EQ(iterator == std::default_sentinel, step == whole.end());
          }
          auto again = make().begin();
          ++again;
          again.restore_state(iterator.save_state());
          ASSERT_EQ(rest(again), std::vector(step, whole.end()));
          if (step == whole.end()) break;
        }
      }
}

TEST(DistributedIteratorState, PlacesTheStepThatWasLookedAt) {
  const auto doubled = [](const Tensor& leaf, int) { return 2 * leaf; };
  const DistributedDataset<Tensor> dataset(range(8).batch(4), 2, doubled);
  auto iterator = dataset.begin();
  const Numbers seen{numbers((*iterator)[0]), numbers((*iterator)[1])};
  auto again = dataset.begin();
  again.restore_state(iterator.save_state());
  EXPECT_EQ(Numbers({numbers((*again)[0]), numbers((*again)[1])}), seen);
}

TEST(DistributedIteratorState, OfElementsOfAnotherTypeLeavesTheIteratorWhereItWas) {
  const auto pairs = range(8).batch(2).map([](const Tensor& x) { return std::tuple(x, x); });
  auto other = DistributedDataset(pairs, 2).begin();
  auto iterator = DistributedDataset(range(8).batch(2), 2).begin();
  ++iterator;
  EXPECT_NE(error_of([&] { iterator.restore_state(other.save_state()); }), "no error");
  EXPECT_EQ((*iterator)[1].item<int64_t>(), 3);
  ++iterator;
  EXPECT_EQ((*iterator)[1].item<int64_t>(), 5);
}

TEST(DistributedIteratorState, BelongsToItsNumberOfReplicas) {
  const auto save = [](int replicas) { return DistributedDataset(range(8).batch(4), replicas).begin().save_state(); };
  auto iterator = DistributedDataset(range(8).batch(4), 2).begin();
  EXPECT_THAT(error_of([&] { iterator.restore_state(save(4)); }),
              HasSubstr("failed_precondition: restoring an iterator: the state is of another dataset: byte 24 begins "
                        "'replica_rows(4)', where this dataset has "
                        "'replica_rows(2)'"));
}

}  // namespace
}  // namespace tutti::data
