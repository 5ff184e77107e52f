#include "tutti/data/distributed_loader.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <list>
#include <type_traits>

#include "tests/support/dataset_values.h"
#include "tutti/tensor/savable.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

struct LoadedRow {  // as torch::data::Example<> is
  Tensor data;
  Tensor target;
};

TEST(DistributeTensors, CutsAStructureAlongItsFirstAxis) {
  const auto values = distribute_tensors(std::tuple(at::arange(5), at::arange(10).view({5, 2})), 3);
  ASSERT_EQ(values.size(), 3U);
  EXPECT_EQ(numbers(std::get<0>(values[2])), std::vector<double>{4});
  EXPECT_EQ(numbers(std::get<1>(values[1])), (std::vector<double>{4, 5, 6, 7}));
  EXPECT_THAT(error_of([] { distribute_tensors(at::full({}, 1), 2); }), HasSubstr("invalid_argument: distribute"));
  EXPECT_EQ(numbers(distribute_tensors(at::full({}, 1), 1)[0]), std::vector<double>{1});
}

// A loader knows no position, so that a checkpoint cannot have it.
static_assert(!std::is_base_of_v<Savable, DistributedLoader<std::list<LoadedRow>>::Iterator>);

TEST(DistributedLoader, DividesStackedBatches) {
  std::list<LoadedRow> loader{{at::arange(5), at::arange(5)}, {at::arange(1), at::arange(1)}};
  std::vector<std::vector<double>> seen;
  for (const auto& batch : DistributedLoader(loader, 2))
    for (const LoadedRow& example : batch) seen.push_back(numbers(example.data + example.target));
  EXPECT_EQ(seen, (Numbers{{0, 2, 4}, {6, 8}, {0}, {}}));
}

TEST(DistributedLoader, DividesVectorsOfExamples) {
  std::vector<std::vector<LoadedRow>> loader{std::vector<LoadedRow>(3, LoadedRow{at::arange(2), at::arange(2)})};
  const Placer placer = [](const Tensor& leaf, int replica_id) { return leaf + replica_id; };
  for (const auto& batch : DistributedLoader(loader, 2, placer)) {
    ASSERT_EQ(batch[0].size(), 2U);
    ASSERT_EQ(batch[1].size(), 1U);
    EXPECT_EQ(numbers(batch[1][0].target), (std::vector<double>{1, 2}));
  }
}

}  // namespace
}  // namespace tutti::data
