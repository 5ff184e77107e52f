#include "tutti/data/rebatch.h"

#include <gmock/gmock.h>

#include <numeric>

#include "tests/support/dataset_values.h"
#include "tutti/data/input_context.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

TEST(ReplicaRows, AreCutByTheCeiling) {
  const auto counts = [](int64_t rows, int replicas) {
    std::vector<int64_t> result;
    for (int i = 0; i < replicas; ++i)
      result.push_back(replica_rows(rows, {.replica_id = i, .num_replicas = replicas}).count);
    return result;
  };
  EXPECT_EQ(counts(4, 3), (std::vector<int64_t>{2, 2, 0}));
  EXPECT_EQ(counts(1, 2), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(counts(6, 4), (std::vector<int64_t>{2, 2, 2, 0}));
  EXPECT_EQ(counts(0, 2), (std::vector<int64_t>{0, 0}));
}

TEST(BatchSizesForWorker, SumToTheGlobalBatchInEveryStep) {
  for (const int64_t batch : {0, 1, 4, 7, 64})
    for (const int workers : {1, 2, 3, 5})
      for (const int replicas : {1, 2, 4}) {
        std::vector<std::vector<int64_t>> sizes;
        for (int worker = 0; worker < workers; ++worker)
          sizes.push_back(batch_sizes_for_worker(
              batch, {.worker = worker, .num_workers = workers, .replicas_per_worker = replicas}));
        for (int step = 0; step < workers; ++step) {
          int64_t sum = 0;
          for (const auto& mine : sizes)
            sum = std::accumulate(mine.begin() + step * replicas, mine.begin() + (step + 1) * replicas, sum);
          EXPECT_EQ(sum, batch);
        }
        for (const auto& mine : sizes) EXPECT_EQ(std::accumulate(mine.begin(), mine.end(), int64_t{0}), batch);
      }
  EXPECT_THAT(error_of([] { batch_sizes_for_worker(-1, {}); }), HasSubstr("invalid_argument"));
  EXPECT_THAT(error_of([] { batch_sizes_for_worker(4, {.worker = 2, .num_workers = 2}); }), HasSubstr("worker 2 of 2"));
}

TEST(InputContext, DividesTheGlobalBatchEvenlyOrNotAtAll) {
  EXPECT_EQ(InputContext({.num_replicas_in_sync = 6}).get_per_replica_batch_size(12), 2);
  EXPECT_THAT(error_of([] { InputContext({.num_replicas_in_sync = 6}).get_per_replica_batch_size(13); }),
              HasSubstr("13 for 6 replicas"));
}

}  // namespace
}  // namespace tutti::data
