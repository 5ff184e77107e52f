// One rule for errors in all operations: an error takes the place of one element, and nothing else is lost.
#include <ATen/ops/scalar_tensor.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "tests/support/collected_warnings.h"
#include "tests/support/dataset_values.h"
#include "tests/support/failing_pipeline.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/watchdog.h"
#include "tutti/core/str.h"
#include "tutti/data/tfrecord.h"

namespace tutti::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// x, but for those of `failing`.
auto failing_at(std::set<int64_t> failing) {
  return [failing = std::move(failing)](const Tensor& x) {
    if (failing.contains(x.item<int64_t>())) throw std::domain_error("failing");
    return x;
  };
}

Numbers left_of(const Dataset<Tensor>& dataset) { return numbers(dataset.ignore_errors()); }

TEST(Errors, KeepTheInputsOfAZipInStep) {
  const auto sum = [](const Tensor& x, const Tensor& y) { return x + 10 * y; };
  const auto failing = range(6).map(failing_at({2}));
  const Numbers expected{{0}, {11}, {33}, {44}, {55}};
  EXPECT_EQ(left_of(zip(failing, range(6)).map(sum)), expected);
  EXPECT_EQ(left_of(zip(range(6), failing).map(sum)), expected);
  EXPECT_EQ(left_of(failing.enumerate().map(sum)), (Numbers{{0}, {11}, {33}, {44}, {55}}));
}

TEST(Errors, KeepTheirPlaceInShardSkipAndTake) {
  const CollectedWarnings warnings;
  const auto failing = range(10).map(failing_at({1}));
  EXPECT_EQ(left_of(failing.shard(2, 0)), (Numbers{{0}, {2}, {4}, {6}, {8}}));
  EXPECT_EQ(left_of(failing.shard(2, 1)), (Numbers{{3}, {5}, {7}, {9}}));
  EXPECT_EQ(left_of(failing.skip(2)), numbers(range(2, 10)));
  EXPECT_EQ(left_of(failing.take(3)), (Numbers{{0}, {2}}));
  EXPECT_THAT(warnings.lines(), ElementsAre(HasSubstr("shard: an element that is passed over throws"),
                                            HasSubstr("skip: an element that is passed over throws")));
}

TEST(Errors, LoseNoOtherElementOfABatch) {
  const auto failing = range(10).map(failing_at({3}));
  const Numbers expected{{0, 1, 2, 4}, {5, 6, 7, 8}, {9}};
  EXPECT_EQ(left_of(failing.batch(4)), expected);
  EXPECT_EQ(left_of(failing.batch(4, {.num_parallel_calls = 2})), expected);
  EXPECT_EQ(left_of(failing.padded_batch(4)), expected);
}

TEST(Errors, LoseNoOtherRowOfARebatch) {
  const auto of_fours = [](const Tensor& x) {
    if (x[0].item<int64_t>() == 4) throw std::domain_error("failing");
    return x;
  };
  const auto failing = range(12).batch(2).map(of_fours);
  EXPECT_EQ(left_of(failing.rebatch(3)), (Numbers{{0, 1, 2}, {3, 6, 7}, {8, 9, 10}, {11}}));
  EXPECT_EQ(left_of(failing.rebatch({1, 4})), (Numbers{{0}, {1, 2, 3, 6}, {7}, {8, 9, 10, 11}}));
}

TEST(Errors, BetweenWindowsAreOneOfTheElementsThere) {
  const auto join = [](const Dataset<Tensor>& window) { return window.batch(9); };
  const auto windows = range(8).map(failing_at({2})).window(2, {.shift = 3});
  EXPECT_EQ(left_of(windows.flat_map(join)), (Numbers{{0, 1}, {3, 4}, {6, 7}}));
}

TEST(Errors, LeaveTheOrderOfAnInterleaveAsOneThreadHasIt) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const auto three = [](const Tensor& x) { return from_tensors(x).repeat(3); };
  const auto failing = range(4).map(failing_at({1}));
  const Numbers expected{{0}, {2}, {0}, {2}, {0}, {2}, {3}, {3}, {3}};
  EXPECT_EQ(left_of(failing.interleave(three, {.cycle_length = 2})), expected);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(left_of(failing.interleave(three, {.cycle_length = 2, .num_parallel_calls = 2})), expected);
}

TEST(Errors, OfAPassAreNotKeptByACache) {
  const TemporaryFolder folder;
  for (const bool in_file : {false, true}) {
    auto calls = std::make_shared<int>(0);
    const auto once = range(5).map([calls](const Tensor& x) {
      if (x.item<int64_t>() == 3 && ++*calls == 1) throw std::domain_error("a transient error");
      return x;
    });
    const auto cached = in_file ? once.cache(folder / "cache") : once.cache();
    EXPECT_EQ(left_of(cached), (Numbers{{0}, {1}, {2}, {4}}));
    EXPECT_EQ(std::filesystem::is_empty(folder.path()), true);
    for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(left_of(cached), numbers(range(5)));
    EXPECT_EQ(*calls, 2);
  }
}

TEST(Errors, DoNotEndAnIterator) {
  auto iterator = range(4).map(failing_at({2})).begin();
  std::vector<int64_t> seen;
  int errors = 0;
  while (iterator != std::default_sentinel) {
    seen.push_back(iterator->item<int64_t>());
    for (bool again = true; again;) try {
        ++iterator;
        again = false;
      } catch (const std::domain_error&) {
        ++errors;
        EXPECT_TRUE(iterator != std::default_sentinel);
        EXPECT_EQ(code_of([&] { *iterator; }), ErrorCode::failed_precondition);
      }
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 3));
  EXPECT_EQ(errors, 1);
}

TEST(Errors, OfAnAssertedCardinalityComeOnce) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const auto three = range(6).filter([](const Tensor& x) { return x.item<int64_t>() < 3; });
  EXPECT_EQ(left_of(three.assert_cardinality(5)), numbers(range(3)));
  const auto endless = range(6).repeat().filter([](const Tensor& x) { return x.item<int64_t>() < 3; });
  EXPECT_EQ(left_of(endless.assert_cardinality(2)), numbers(range(2)));
}

FailingFiles failing_files(const TemporaryFolder& folder) {
  FailingFiles files{.csv = folder / "rows.csv", .records = folder / "records", .in_csv = {}, .in_records = {}};
  std::string csv = "id,text\n";
  for (int i = 0; i < 20; ++i) {
    const char* bad[] = {"x,a\n", "1,a,b\n", "1,a\"b\n", "1,\"a\"b,c\n"};
    csv += i % 7 == 3 ? bad[i / 7] : str(i, ",\"row\n", i, "\"\n");
    files.in_csv.push_back(i % 7 == 3 ? Place() : place_of(i));
  }
  folder.write("rows.csv", csv + "1,\"a\"b,c\n");
  files.in_csv.emplace_back();
  {
    TFRecordWriter writer(files.records, {});
    for (int i = 0; i < 10; ++i) writer.write(str(1000 + i));
    writer.close();
  }
  std::string bytes = folder.read("records");
  constexpr size_t kRecordBytes = 12 + 4 + 4;
  for (int i = 0; i < 10; ++i) {
    if (i % 4 == 1) bytes[static_cast<size_t>(i) * kRecordBytes + 13] ^= 1;
    files.in_records.push_back(i % 4 == 1 ? Place() : place_of(1000 + i));
  }
  folder.write("records", bytes);
  return files;
}

TEST(Errors, LoseOneRecordOfAFile) {
  const TemporaryFolder folder;
  const FailingFiles files = failing_files(folder);
  const auto whole = [](const Places& places) {
    Numbers all;
    for (const Place& place : places)
      if (place) all.push_back(*place);
    return all;
  };
  EXPECT_EQ(
      left_of(csv_dataset({files.csv}, csv_options()).map([](const CsvRow& row) { return row.numbers.at("id"); })),
      whole(files.in_csv));
  EXPECT_EQ(left_of(tfrecord_dataset({files.records}).map([](const Strings& record) {
              return at::scalar_tensor(std::stoll(record.item()), at::kLong);
            })),
            whole(files.in_records));
}

// Place by place, what a pass gives from here on.
Places rest_of_pass(graph::Pass& pass, size_t at_most = SIZE_MAX) {
  Places places;
  while (places.size() < at_most) try {
      graph::Element element;
      if (!pass.next(element)) break;
      places.push_back(numbers(from_element<Tensor>(std::move(element))));
    } catch (const std::exception&) {
      places.emplace_back();
    }
  return places;
}

// Some thousands in each run of the tests; TUTTI_RANDOM_PIPELINES asks for more.
TEST(Errors, OfRandomPipelinesLoseTheFailedElementAndNothingElse) {
  const Watchdog watchdog(std::chrono::hours(1));
  const CollectedWarnings warnings;
  const TemporaryFolder folder;
  const FailingFiles files = failing_files(folder);
  const char* asked = std::getenv("TUTTI_RANDOM_PIPELINES");
  const uint64_t count = asked ? std::strtoull(asked, nullptr, 10) : 2000;
  for (uint64_t seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(seed);
    const FailingPipeline pipeline(seed, files);
    graph::Pass pass(pipeline.dataset().node());
    ASSERT_EQ(rest_of_pass(pass), pipeline.places());
    if (pipeline.places().empty()) continue;

    // Saved behind any element, and restored in a pipeline that was built anew.
    graph::Pass begun(pipeline.dataset().node());
    const size_t taken = 1 + seed % pipeline.places().size();
    rest_of_pass(begun, taken);
    if (!pipeline.places()[taken - 1]) continue;
    const FailingPipeline anew(seed, files);
    graph::Pass resumed(anew.dataset().node());
    graph::read_passes({&resumed, 1}, graph::save_passes({&begun, 1}, {}), 0).go();
    ASSERT_EQ(rest_of_pass(resumed),
              Places(pipeline.places().begin() + static_cast<std::ptrdiff_t>(taken), pipeline.places().end()));
  }
}

}  // namespace
}  // namespace tutti::data
