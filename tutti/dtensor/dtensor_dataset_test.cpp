#include "tutti/dtensor/dtensor_dataset.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>

#include "tests/support/dataset_values.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/checkpoint.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/cut.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/relayout.h"

namespace tutti::dtensor {
namespace {

using data::range;
using testing::HasSubstr;

Mesh two_by_two(const MeshOptions& options = {}) {
  return Mesh({{"batch", 2}, {"model", 2}}, configure_logical_cpus(4), options);
}

Layout rows(const Mesh& mesh, int rank = 1) { return Layout::batch_sharded(mesh, "batch", rank); }

// What each device holds.
Numbers pieces(const Tensor& tensor) {
  const auto& impl = mesh_impl(tensor);
  Numbers all;
  for (const Tensor& piece : replica_pieces(impl.spec(), mesh_impl(tensor).read())) all.push_back(numbers(piece));
  return all;
}

template <class T>
std::vector<T> batches_of(const DTensorDataset<T>& dataset) {
  std::vector<T> batches;
  for (const T& batch : dataset) batches.push_back(batch);
  return batches;
}

Numbers whole(const DTensorDataset<Tensor>& dataset) {
  Numbers all;
  for (const Tensor& batch : dataset) all.push_back(numbers(gather(batch)));
  return all;
}

class DTensorDatasetTest : public testing::TestWithParam<bool> {
 protected:
  Mesh mesh = two_by_two({.merge = GetParam()});
};

TEST_P(DTensorDatasetTest, EveryDeviceHasItsRowsOfTheGlobalBatch) {
  const DTensorDataset dataset(range(9),
                               {.mesh = mesh, .layouts = {rows(mesh)}, .global_batch_size = 4, .batch_dim = "batch"});
  EXPECT_EQ(dataset.cardinality(), 2);
  const auto batches = batches_of(dataset);
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(layout_of(batches[1]), rows(mesh));
  EXPECT_EQ(pieces(batches[1]), (Numbers{{4, 5}, {4, 5}, {6, 7}, {6, 7}}));
}

TEST_P(DTensorDatasetTest, OtherAxesAreCutToo) {
  const auto images = data::from_tensor_slices(at::arange(16).view({4, 4}));
  const DTensorDataset dataset(images,
                               {.mesh = mesh, .layouts = {Layout({"batch", "model"}, mesh)}, .global_batch_size = 2});
  EXPECT_EQ(pieces(*dataset.begin()), (Numbers{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
}

TEST_P(DTensorDatasetTest, AShortLastBatchIsCutInShorterPiecesWhereItIsKept) {
  const DTensorDataset dataset(
      range(7), {.mesh = mesh, .layouts = {rows(mesh)}, .global_batch_size = 4, .drop_remainder = false});
  EXPECT_EQ(dataset.cardinality(), 2);
  EXPECT_EQ(pieces(batches_of(dataset)[1]), (Numbers{{4, 5}, {4, 5}, {6}, {6}}));
}

TEST_P(DTensorDatasetTest, APassThatIsSavedGoesOnWithMeshTensors) {
  for (const int64_t prefetch : {0, 2}) {
    SCOPED_TRACE(prefetch);
    const auto make = [&] {
      return DTensorDataset(range(20).shuffle(7, {.seed = 3}),
                            {.mesh = mesh, .layouts = {rows(mesh)}, .global_batch_size = 4, .prefetch = prefetch});
    };
    const Numbers all = whole(make());
    for (size_t count = 0; count <= all.size(); ++count) {
      auto iterator = make().begin();
      for (size_t i = 0; i < count; ++i) ++iterator;
      auto again = make().begin();
      again.restore_state(iterator.save_state());
      Numbers rest;
      for (; again != std::default_sentinel; ++again) {
        EXPECT_EQ(layout_of(*again), rows(mesh));
        rest.push_back(numbers(gather(*again)));
      }
      EXPECT_EQ(rest, Numbers(all.begin() + static_cast<std::ptrdiff_t>(count), all.end())) << count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Buffers, DTensorDatasetTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "merged" : "separate"; });

TEST(DTensorDataset, IsRestoredInOtherLayouts) {
  const Mesh mesh = two_by_two();
  const auto make = [&](const Layout& layout) {
    return DTensorDataset(range(8), {.mesh = layout.mesh(), .layouts = {layout}, .global_batch_size = 4}).begin();
  };
  auto saved = make(rows(mesh));
  ++saved;
  const Mesh other({{"x", 3}}, configure_logical_cpus(3));
  auto iterator = make(Layout({"x"}, other));
  iterator.restore_state(saved.save_state());
  EXPECT_EQ(pieces(*iterator), (Numbers{{4, 5}, {6, 7}, {}}));
}

TEST(DTensorDataset, IteratorsArePartsOfCheckpoints) {
  const TemporaryFolder folder;
  const Mesh mesh = two_by_two();
  const DTensorDataset dataset(range(8), {.mesh = mesh, .layouts = {rows(mesh)}, .global_batch_size = 4});
  auto iterator = dataset.begin();
  ++iterator;
  Checkpoint({{"position", iterator}}).write(folder / "c");
  auto again = dataset.begin();
  Checkpoint({{"position", again}}).restore(folder / "c").assert_consumed();
  EXPECT_EQ(pieces(*again), (Numbers{{4, 5}, {4, 5}, {6, 7}, {6, 7}}));
}

TEST(DTensorDataset, GoesOnBehindABatchThatFails) {
  const Mesh mesh = two_by_two();
  const auto failing = range(12).batch(4).map(
      [](const Tensor& x) { return x[0].item<int64_t>() == 4 ? throw std::domain_error("four") : x; });
  const DTensorDataset dataset(
      failing, {.mesh = mesh, .layouts = {rows(mesh)}, .global_batch_size = 4, .dataset_already_batched = true});
  auto iterator = dataset.begin();
  EXPECT_EQ(pieces(*iterator), (Numbers{{0, 1}, {0, 1}, {2, 3}, {2, 3}}));
  EXPECT_THROW(++iterator, std::domain_error);
  EXPECT_TRUE(iterator != dataset.end());
  ++iterator;
  EXPECT_EQ(pieces(*iterator), (Numbers{{8, 9}, {8, 9}, {10, 11}, {10, 11}}));
  ++iterator;
  EXPECT_TRUE(iterator == dataset.end());
}

TEST(DTensorDataset, KeepsTheStructureOfItsElements) {
  const Mesh mesh = two_by_two();
  using Sample = std::map<std::string, Tensor>;
  const auto samples = range(4).map([](const Tensor& x) {
    return std::tuple(Sample{{"wide", x.expand({2})}, {"long", x}}, x);
  });
  const DTensorDataset dataset(samples, {.mesh = mesh,
                                         .layouts = {rows(mesh), Layout({"batch", "model"}, mesh), rows(mesh)},
                                         .global_batch_size = 4,
                                         .batch_dim = "batch"});
  const auto [sample, label] = *dataset.begin();
  EXPECT_EQ(layout_of(sample.at("long")), rows(mesh));
  EXPECT_EQ(layout_of(sample.at("wide")), Layout({"batch", "model"}, mesh));
  EXPECT_EQ(sample.at("wide").sizes(), at::IntArrayRef({4, 2}));
  EXPECT_EQ(numbers(gather(label)), (std::vector<double>{0, 1, 2, 3}));
}

TEST(DTensorDataset, TakesBatchesAsTheyAre) {
  const Mesh mesh = two_by_two();
  const auto make = [&](const data::Dataset<Tensor>& batches, bool drop_remainder) {
    return DTensorDataset(batches, {.mesh = mesh,
                                    .layouts = {rows(mesh)},
                                    .global_batch_size = 4,
                                    .dataset_already_batched = true,
                                    .drop_remainder = drop_remainder});
  };
  EXPECT_EQ(whole(make(range(8).batch(4), true)), (Numbers{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(whole(make(range(6).batch(4), false)), (Numbers{{0, 1, 2, 3}, {4, 5}}));
  EXPECT_THAT(error_of([&] { whole(make(range(6).batch(4), true)); }),
              HasSubstr("a batch of the dataset has 2 rows, and global_batch_size is 4; batch with drop_remainder"));
  EXPECT_THAT(error_of([&] { make(range(8).batch(2), true); }),
              HasSubstr("the dataset has batches of 2 rows, and global_batch_size is 4"));
  const auto hidden = range(8).batch(8).map([](const Tensor& x) { return x; });
  EXPECT_THAT(error_of([&] { whole(make(hidden, false)); }), HasSubstr("has 8 rows, and global_batch_size is 4"));
  EXPECT_THAT(error_of([&] { make(range(8), true); }), HasSubstr("the dataset is not batched"));
}

TEST(DTensorDataset, PrefetchCutsAheadOfTheProgram) {
  const Mesh mesh = two_by_two();
  std::atomic<int> made = 0;
  const auto counted = range(8).map([&](const Tensor& x) {
    ++made;
    return x;
  });
  const DTensorDataset dataset(counted, {.mesh = mesh, .layouts = {rows(mesh)}, .global_batch_size = 2, .prefetch = 2});
  const auto iterator = dataset.begin();
  EXPECT_EQ(pieces(*iterator), (Numbers{{0}, {0}, {1}, {1}}));
  while (made < 6) std::this_thread::yield();  // the first batch and two ahead
}

TEST(DTensorDataset, LeavesTheTensorsOfTheDatasetAlone) {
  const Mesh mesh = two_by_two();
  const Tensor source = at::arange(4, at::kFloat);
  const DTensorDataset dataset(data::from_tensor_slices(source),
                               {.mesh = mesh, .layouts = {rows(mesh)}, .global_batch_size = 4});
  (*dataset.begin()).add_(1);
  EXPECT_TRUE(at::equal(source, at::arange(4, at::kFloat)));
}

TEST(DTensorDataset, RefusesLayoutsThatDoNotFit) {
  const Mesh mesh = two_by_two();
  const Mesh other({{"batch", 2}}, configure_logical_cpus(2));
  const auto error_with = [&](std::vector<Layout> layouts, std::optional<std::string> batch_dim = {}) {
    return error_of([&] {
      whole(DTensorDataset(
          range(4),
          {.mesh = mesh, .layouts = std::move(layouts), .global_batch_size = 4, .batch_dim = std::move(batch_dim)}));
    });
  };
  EXPECT_THAT(error_with({}), HasSubstr("invalid_argument: DTensorDataset: no layouts"));
  EXPECT_THAT(error_with({rows(mesh), rows(mesh)}), HasSubstr("2 layouts for elements of 1 tensors"));
  EXPECT_THAT(error_with({rows(mesh, 2)}),
              HasSubstr("layout 0, [batch, unsharded], has rank 2 and the batches have shape [4]"));
  EXPECT_THAT(error_with({Layout({}, mesh)}), HasSubstr("is of a scalar"));
  EXPECT_THAT(error_with({rows(other)}), HasSubstr("is of the mesh <batch=2>, the dataset of another one"));
  EXPECT_THAT(error_with({Layout({kUnsharded}, mesh, {"model"})}), HasSubstr("is a sum over devices"));
  EXPECT_THAT(error_with({Layout({kMatch}, mesh)}), HasSubstr("leaves open how an axis is cut"));
  EXPECT_THAT(error_with({Layout({kUnsharded}, mesh)}, "batch"),
              HasSubstr("layout 0, [unsharded], does not split axis 0 over the batch_dim 'batch'"));
  EXPECT_THAT(error_with({Layout({"model"}, mesh)}, "batch"), HasSubstr("does not split axis 0"));
  EXPECT_THAT(error_with({rows(mesh)}, "rows"), HasSubstr("invalid_argument"));
}

TEST(DTensorDataset, RefusesTextAndSizesBelowOne) {
  const Mesh mesh = two_by_two();
  const auto reviews = data::from_tensor_slices(Strings(std::vector<std::string>{"a", "b"}), at::zeros({2}));
  const std::vector<Layout> layouts{rows(mesh), rows(mesh)};
  EXPECT_THAT(error_of([&] { DTensorDataset(reviews, {.mesh = mesh, .layouts = layouts, .global_batch_size = 2}); }),
              HasSubstr("leaf 0 is text, which has no layout"));
  const auto named = reviews.map([](const Strings& text, const Tensor&) {
    return std::map<std::string, Strings>{{"a", text}};
  });
  EXPECT_THAT(error_of([&] {
                *DTensorDataset(named, {.mesh = mesh, .layouts = {rows(mesh)}, .global_batch_size = 2}).begin();
              }),
              HasSubstr("leaf 0 is text"));
  EXPECT_THAT(error_of([&] { DTensorDataset(range(2), {.mesh = mesh, .layouts = {rows(mesh)}}); }),
              HasSubstr("global_batch_size is 0"));
  EXPECT_THAT(error_of([&] {
                DTensorDataset(range(2),
                               {.mesh = mesh, .layouts = {rows(mesh)}, .global_batch_size = 2, .prefetch = -1});
              }),
              HasSubstr("prefetch is -1"));
}

}  // namespace
}  // namespace tutti::dtensor
