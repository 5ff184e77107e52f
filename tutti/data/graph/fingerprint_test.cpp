#include "tutti/data/graph/fingerprint.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <functional>
#include <numeric>

#include "tests/support/dataset_values.h"
#include "tests/support/temporary_folder.h"
#include "tutti/data/counter.h"
#include "tutti/data/csv_dataset.h"
#include "tutti/data/fixed_length_record_dataset.h"
#include "tutti/data/graph/auto_shard.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/random.h"
#include "tutti/data/text_line_dataset.h"
#include "tutti/data/tfrecord.h"

namespace tutti::data {
namespace {

using graph::NodePtr;
using ::testing::HasSubstr;

int64_t value_of(const Tensor& x) { return x.item<int64_t>(); }

Dataset<Tensor> growing() {
  return range(1, 5).map([](const Tensor& x) { return x.expand({value_of(x)}); });
}

class OfOtherArguments : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_ / "cache"; }

  void write_cache(const NodePtr& node) const {
    graph::for_each(
        graph::cache_file(node, file()), [](const graph::Element&) {}, "test");
  }

  // A file of the first is read by the same dataset built anew, and by no other one.
  void expect_files_refused(const std::vector<NodePtr>& datasets, const NodePtr& first_again) const {
    std::filesystem::remove(file());
    write_cache(datasets.front());
    EXPECT_EQ(error_of([&] { write_cache(first_again); }), "no error");
    for (size_t i = 1; i < datasets.size(); ++i)
      EXPECT_THAT(error_of([&] { write_cache(datasets[i]); }), HasSubstr("is of another dataset")) << i;
  }

  static void restore(const NodePtr& saved, const NodePtr& other) {
    graph::Pass from(saved), to(other);
    graph::read_passes({&to, 1}, graph::save_passes({&from, 1}, {}), 0);
  }

  static void expect_states_refused(const std::vector<NodePtr>& datasets, const NodePtr& first_again) {
    EXPECT_EQ(error_of([&] { restore(datasets.front(), first_again); }), "no error");
    for (size_t i = 1; i < datasets.size(); ++i)
      EXPECT_THAT(error_of([&] { restore(datasets.front(), datasets[i]); }),
                  HasSubstr("failed_precondition: restoring an iterator: the state is of another dataset"))
          << i;
  }

  // make(i): dataset i of `count`, which differ in arguments alone.
  template <class Make>
  void expect_refused(int count, const Make& make) const {
    std::vector<NodePtr> datasets;
    for (int i = 0; i < count; ++i) datasets.push_back(make(i));
    expect_files_refused(datasets, make(0));
    expect_states_refused(datasets, make(0));
  }
  template <class T>
  void expect_refused(const std::function<std::vector<Dataset<T>>()>& make) const {
    expect_refused(static_cast<int>(make().size()), [&](int i) { return make()[static_cast<size_t>(i)].node(); });
  }

  const TemporaryFolder folder_;
};

TEST_F(OfOtherArguments, PaddedBatchesAreRefused) {
  expect_refused<Tensor>([] {
    return std::vector{growing().padded_batch(2), growing().padded_batch(2, {.padding_value = -1}),
                       growing().padded_batch(2, {.padding_value = 1e-9}),
                       growing().padded_batch(2, {.padded_shapes = {{4}}}),
                       growing().padded_batch(2, {.padded_shapes = {{5}}})};
  });
}

TEST_F(OfOtherArguments, BucketsAreRefused) {
  const auto length = [](const Tensor& x) { return x.size(0); };
  const auto buckets = [=](std::vector<int64_t> boundaries, std::vector<int64_t> sizes,
                           const BucketOptions& options = {}) {
    return growing().bucket_by_sequence_length(length, boundaries, sizes, options);
  };
  expect_refused<Tensor>([=] {
    return std::vector{buckets({2, 9}, {1, 2, 1}),
                       buckets({3, 9}, {1, 2, 1}),
                       buckets({2, 9}, {1, 1, 1}),
                       buckets({2, 9}, {1, 2, 1}, {.padding_value = 7}),
                       buckets({2, 9}, {1, 2, 1}, {.padded_shapes = {{8}}}),
                       buckets({2, 9}, {1, 2, 1}, {.pad_to_bucket_boundary = true}),
                       buckets({2, 9}, {1, 2, 1}, {.no_padding = true}),
                       buckets({2, 9}, {1, 2, 1}, {.drop_remainder = true})};
  });
}

TEST_F(OfOtherArguments, WindowsOfAGivenSizeAreRefused) {
  const auto parity = [](const Tensor& x) { return value_of(x) % 2; };
  const auto batch = [](int64_t, const Dataset<Tensor>& window) { return window.batch(9); };
  expect_refused<Tensor>([=] {
    return std::vector{range(8).group_by_window(parity, batch, 2), range(8).group_by_window(parity, batch, 3)};
  });
}

TEST_F(OfOtherArguments, InitialStatesOfScanAreRefused) {
  const auto add = [](const Tensor& sum, const Tensor& x) { return std::pair(sum + x, sum + x); };
  expect_refused<Tensor>([=] {
    return std::vector{range(3).scan(at::zeros({}, at::kLong), add), range(3).scan(at::full({}, 5, at::kLong), add),
                       range(3).scan(at::zeros({}, at::kFloat), add), range(3).scan(at::zeros({2}, at::kLong), add)};
  });
}

TEST_F(OfOtherArguments, MixturesAreRefused) {
  const std::vector both{range(4), range(10, 14)};
  const auto sampled = [=](const SampleOptions& options) { return sample_from_datasets(both, options).take(4); };
  expect_refused<Tensor>([=] {
    return std::vector{sampled({.weights = {1, 1}, .seed = 3}), sampled({.weights = {1, 1e-9}, .seed = 3}),
                       sampled({.weights = {1, 1}, .seed = 3, .stop_on_empty_dataset = true}),
                       sampled({.weights = {1, 1}, .seed = 3, .rerandomize_each_iteration = true}),
                       choose_from_datasets(both, range(2), {.stop_on_empty_dataset = false}).take(4)};
  });
}

TEST_F(OfOtherArguments, SourcesAreRefused) {
  expect_refused<Tensor>([] {
    return std::vector{counter(0, 2).take(3), counter(1, 2).take(3), counter(0, 3).take(3)};
  });
  using Row = std::map<std::string, Tensor>;
  expect_refused<Row>([] {
    return std::vector{from_tensor_slices(Row{{"a", at::arange(3)}}), from_tensor_slices(Row{{"b", at::arange(3)}})};
  });
}

TEST_F(OfOtherArguments, OrdersAreRefused) {
  const auto same = [](const Tensor& x) { return x; };
  const auto one = [](const Tensor& x) { return from_tensors(x); };
  expect_refused<Tensor>([=] {
    return std::vector{range(4).map(same, {.num_parallel_calls = 2}),
                       range(4).map(same, {.num_parallel_calls = 2, .deterministic = false}),
                       range(4).map(same, {.num_parallel_calls = 2, .seed = 1})};
  });
  expect_refused<Tensor>([=] {
    return std::vector{range(4).interleave(one, {.num_parallel_calls = 2}),
                       range(4).interleave(one, {.num_parallel_calls = 2, .deterministic = false})};
  });
  expect_refused<Tensor>([] {
    return std::vector{range(4).shuffle(4, {.seed = 1}).repeat(2),
                       range(4).shuffle(4, {.seed = 1, .reshuffle_each_iteration = false}).repeat(2)};
  });
  expect_refused(2, [](int index) { return graph::non_empty_shard(graph::range(0, 4, 1), 2, index); });
}

TEST_F(OfOtherArguments, ReadersOfOneFileAreRefused) {
  const auto path = folder_.write("file", "abcdefghijkl");
  const auto fixed = [=](int64_t bytes, const FixedLengthRecordOptions& options = {}) {
    return fixed_length_record_dataset({path}, bytes, options);
  };
  expect_refused<Strings>([=] {
    return std::vector{fixed(2),
                       fixed(4),
                       fixed(2, {.header_bytes = 4}),
                       fixed(2, {.footer_bytes = 4}),
                       fixed(2, {.compression = Compression::gzip}),
                       text_line_dataset({path}),
                       tfrecord_dataset({path}),
                       tfrecord_dataset({path}, {.compression = Compression::zlib})};
  });
}

TEST_F(OfOtherArguments, ColumnsOfACsvFileAreRefused) {
  const auto path = folder_.write("table.csv", "a,b,c\n1,10,x\n2,,\"y\"\n");
  const auto columns = [=](const CsvOptions& options) { return csv_dataset<Tensor>({path}, options); };
  expect_refused<Tensor>([=] {
    return std::vector{columns({.select_columns = {"a"}}),
                       columns({.select_columns = {"b"}}),
                       columns({.na_value = "2", .select_columns = {"a"}}),
                       columns({.select_columns = {"a"}, .record_defaults = {0.F}}),
                       columns({.select_columns = {"a"}, .record_defaults = {7}}),
                       columns({.select_columns = {"a"}, .record_defaults = {CsvType::int32}})};
  });
  const auto rows = [=](const CsvOptions& options) { return csv_dataset({path}, options); };
  expect_refused<CsvRow>([=] {
    return std::vector{rows({}), rows({.column_names = {"a", "b", "d"}}), rows({.use_quote_delim = false}),
                       rows({.header = false, .column_names = {"a", "b", "c"}}),
                       rows({.field_delim = ';', .column_names = {"a"}})};
  });
}

TEST_F(OfOtherArguments, FilesOfOtherNamesAreRefused) {
  const auto a = folder_.write("a", "x\n"), b = folder_.write("b", "y\n");
  expect_refused<Strings>([=] { return std::vector{text_line_dataset({a}), text_line_dataset({b})}; });
}

TEST_F(OfOtherArguments, ContentsAreToldApartWhereverTheyStand) {
  const auto zero = from_tensor_slices(at::full({3}, 0)), one = from_tensor_slices(at::full({3}, 1));
  const std::vector<NodePtr> mixed{zip(zero, one, zero).node(), zip(zero, one, one).node()};
  expect_files_refused(mixed, zip(zero, one, zero).node());
  const auto dense = [](double value) {
    return from_tensor_slices((at::eye(3) * value).to_sparse()).map([](const Tensor& x) { return x.to_dense(); });
  };
  expect_files_refused({dense(1).node(), dense(2).node()}, dense(1).node());
}

// The order of a shuffle, and the like, are those of the seed that the program gives; one that it leaves to be drawn is
// another in each run.
TEST_F(OfOtherArguments, SeedsThatWereGivenAreRefusedInFilesAlone) {
  const auto noisy = [](const Tensor& x) { return x; };
  const std::vector both{range(4), range(10, 14)};
  const std::vector<std::function<Dataset<Tensor>(std::optional<uint64_t>)>> seeded{
      [](auto seed) { return range(8).shuffle(8, {.seed = seed}); },
      [](auto seed) { return range(8).shuffle(8, {.seed = seed}).map([](const Tensor& x) { return x; }).cache(); },
      [=](auto seed) { return sample_from_datasets(both, {.seed = seed}); },
      [](auto seed) { return random(seed).take(3); }};
  for (const auto& make : seeded) {
    expect_files_refused({make(1).node(), make(2).node(), make({}).node()}, make(1).node());
    expect_files_refused({make({}).node(), make(1).node()}, make({}).node());
    EXPECT_EQ(error_of([&] { restore(make(1).node(), make(2).node()); }), "no error");
  }
  const auto mapped = [=](uint64_t seed, int threads) {
    return range(4).map(noisy, {.num_parallel_calls = threads, .seed = seed}).node();
  };
  expect_files_refused({mapped(1, 0), mapped(2, 0), mapped(2, 2)}, mapped(1, 2));
  EXPECT_EQ(error_of([&] { restore(mapped(1, 0), mapped(2, 0)); }), "no error");
}

// A dataset that is rebuilt for its input pipeline has drawn its seed as well.
TEST_F(OfOtherArguments, SeedsThatWereDrawnAreNoneInARebuiltDatasetEither) {
  const auto rebuilt = [] {
    const NodePtr sampled = sample_from_datasets(std::vector{range(4), range(10, 14)}).node();
    return sampled->rebuild(sampled->inputs);
  };
  write_cache(rebuilt());
  EXPECT_EQ(error_of([&] { write_cache(rebuilt()); }), "no error");
}

// What a restored iterator goes on to write is of the seed that it goes on with.
TEST_F(OfOtherArguments, AFileIsOfTheSeedThatWasRestored) {
  const auto cached = [this](uint64_t seed) { return range(8).shuffle(8, {.seed = seed}).cache(file()).repeat(2); };
  const Numbers first = numbers(range(8).shuffle(8, {.seed = 1}));
  auto saved = cached(1).begin();
  ++saved;
  auto iterator = cached(2).begin();
  iterator.restore_state(saved.save_state());
  Numbers seen{first.front()};
  for (; iterator != std::default_sentinel; ++iterator) seen.push_back(numbers(*iterator));
  ASSERT_EQ(seen.size(), 16U);
  EXPECT_EQ(Numbers(seen.begin() + 8, seen.end()), first);
  EXPECT_EQ(numbers(cached(1).take(8)), first);
  EXPECT_THAT(error_of([&] { numbers(cached(2)); }), HasSubstr("is of another dataset"));
}

class BehindCaches : public OfOtherArguments {
 protected:
  static Dataset<Tensor> plus_one(const Dataset<Tensor>& dataset) {
    return dataset.map([](const Tensor& x) { return x + 1; });
  }
};

TEST_F(BehindCaches, AFileIsReadBehindAnotherFile) {
  const auto two = [this](int64_t n) {
    return plus_one(plus_one(range(n)).cache(folder_ / "first")).cache(folder_ / "second");
  };
  const auto dataset = two(3);
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(numbers(dataset), (Numbers{{2}, {3}, {4}}));
  EXPECT_EQ(numbers(two(3)), (Numbers{{2}, {3}, {4}}));
  std::filesystem::remove(folder_ / "first");
  EXPECT_EQ(numbers(two(3)), (Numbers{{2}, {3}, {4}}));
  EXPECT_THAT(error_of([&] { numbers(two(4)); }), HasSubstr("failed_precondition"));
}

TEST_F(BehindCaches, AFileIsReadWhetherOneInMemoryIsFullOrNot) {
  const auto in_memory = plus_one(range(3)).cache();
  numbers(in_memory);
  const Numbers expected{{2}, {3}, {4}};
  EXPECT_EQ(numbers(plus_one(in_memory).cache(file())), expected);
  EXPECT_EQ(numbers(plus_one(plus_one(range(3)).cache()).cache(file())), expected);
  EXPECT_THAT(error_of([&] { numbers(plus_one(range(3).cache()).cache(file())); }), HasSubstr("is of another dataset"));
}

// Also where they are full, and the state has no need of the input.
TEST_F(BehindCaches, StatesOfOtherDatasetsAreRefused) {
  const auto full = [](const Dataset<Tensor>& dataset) {
    numbers(dataset);
    return dataset;
  };
  const auto in_memory = full(range(3).cache());
  EXPECT_EQ(error_of([&] { restore(in_memory.node(), range(3).cache().node()); }), "no error");
  EXPECT_THAT(error_of([&] { restore(in_memory.node(), range(4).cache().node()); }), HasSubstr("of another dataset"));
  const auto in_file = full(range(3).cache(file()));
  EXPECT_EQ(error_of([&] { restore(in_file.node(), range(3).cache(file()).node()); }), "no error");
  EXPECT_THAT(error_of([&] { restore(in_file.node(), range(4).cache(folder_ / "other").node()); }),
              HasSubstr("of another dataset"));
}

}  // namespace
}  // namespace tutti::data
