#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"
#include "tutti/data/tfrecord.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class CacheFile : public ::testing::Test {
 protected:
  CacheFile()
      : folder_(fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CacheFile() override { fs::remove_all(folder_); }

  // 0, 1, … n - 1, counting how often they were computed.
  Dataset<Tensor> counted(int64_t n) {
    return range(n).map([this](const Tensor& x) {
      ++calls_;
      return x + 0;
    });
  }
  auto files() const { return std::distance(fs::directory_iterator(folder_), {}); }

  std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator(file), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }
  std::string path() const { return folder_ / "cache"; }

  fs::path folder_;
  std::atomic<int> calls_ = 0;
};

TEST_F(CacheFile, ComputesOnceForAllPrograms) {
  EXPECT_EQ(numbers(counted(10).cache(path())), numbers(range(10)));
  EXPECT_EQ(numbers(counted(10).cache(path()).repeat(2)), numbers(range(10).repeat(2)));
  EXPECT_EQ(calls_, 10);
  EXPECT_EQ(files(), 1);
}

TEST_F(CacheFile, KeepsTextNamesDtypesAndRaggedShapes) {
  using Row = std::map<std::string, std::tuple<Tensor, Strings>>;
  const auto rows = range(6).map([](const Tensor& x) {
    const auto i = x.item<int64_t>();
    return Row{{"a", {at::full({i % 3}, static_cast<double>(i), i % 2 == 0 ? at::kHalf : at::kInt), Strings("x")}}};
  });
  const auto cached = rows.cache(path());
  for (int pass = 0; pass < 2; ++pass) {
    int64_t i = 0;
    for (const Row& row : cached) {
      EXPECT_EQ(std::get<0>(row.at("a")).sizes(), at::IntArrayRef({i % 3}));
      EXPECT_EQ(std::get<0>(row.at("a")).scalar_type(), i % 2 == 0 ? at::kHalf : at::kInt);
      EXPECT_EQ(std::get<1>(row.at("a")), Strings("x"));
      ++i;
    }
    EXPECT_EQ(i, 6);
  }
}

TEST_F(CacheFile, APassThatIsLeftEarlyLeavesNothing) {
  EXPECT_EQ(numbers(counted(10).cache(path()).take(3)).size(), 3U);
  EXPECT_EQ(files(), 0);
}

TEST_F(CacheFile, OfNothing) {
  const auto of_none = counted(5).filter([](const Tensor&) { return false; }).cache(path());
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(numbers(of_none), Numbers{});
  EXPECT_EQ(calls_, 5) << "the file is read";
}

TEST_F(CacheFile, TwoPassesAtOnceDoNotMix) {
  const auto dataset = counted(4).cache(path());
  EXPECT_EQ(numbers(zip(dataset, dataset).map([](const Tensor& x, const Tensor& y) { return x - y; })),
            (Numbers{{0}, {0}, {0}, {0}}));
  EXPECT_EQ(numbers(dataset), numbers(range(4)));
}

TEST_F(CacheFile, EveryTruncationIsNoticed) {
  const auto dataset = range(3).cache(path());
  numbers(dataset);
  const std::string whole = bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    EXPECT_EQ(code_of([&] { numbers(dataset); }), ErrorCode::data_loss) << size;
  }
  write(whole + "x");
  EXPECT_THAT(error_of([&] { numbers(dataset); }), HasSubstr("followed by more"));
}

TEST_F(CacheFile, EveryDamagedByteIsNoticed) {
  const auto dataset = range(3).cache(path());
  numbers(dataset);
  const std::string whole = bytes();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    write(damaged);
    EXPECT_THAT(error_of([&] { numbers(dataset); }), HasSubstr("data_loss: cache: '" + path() + "': ")) << at;
  }
}

TEST_F(CacheFile, OfAnotherDatasetIsRefused) {
  numbers(range(3).cache(path()));
  const auto code = [this](const auto& dataset) {
    return code_of([&] {
      for ([[maybe_unused]] const auto& element : dataset.cache(path())) continue;
    });
  };
  EXPECT_EQ(code(range(3).enumerate()), ErrorCode::failed_precondition);
  EXPECT_EQ(code(range(3).map([](const Tensor&) { return Strings("x"); })), ErrorCode::failed_precondition);
  EXPECT_EQ(code(range(3).map([](const Tensor& x) {
              return std::map<std::string, Tensor>{{"x", x}};
            })),
            ErrorCode::failed_precondition);
}

TEST_F(CacheFile, OfAnotherNumberOfElementsIsRefused) {
  numbers(range(5).cache(path()));
  EXPECT_THAT(error_of([&] { numbers(range(100).cache(path())); }),
              HasSubstr("failed_precondition: cache: '" + path() + "' has 5 elements and the dataset 100"));
  const auto unknown = range(100).filter([](const Tensor&) { return true; });
  EXPECT_THAT(error_of([&] { numbers(unknown.cache(path())); }), HasSubstr("is of another dataset"));
}

TEST_F(CacheFile, OfAnotherPipelineOfAsManyElementsOfTheSameTypeIsRefused) {
  const auto own = from_tensor_slices(at::full({4}, 1)).cache(path());
  numbers(own);
  EXPECT_EQ(numbers(own).size(), 4U);
  EXPECT_EQ(numbers(from_tensor_slices(at::full({4}, 1)).cache(path())).size(), 4U) << "made anew";
  const auto error = [this](const Dataset<Tensor>& dataset) {
    return error_of([&] { numbers(dataset.cache(path())); });
  };
  EXPECT_THAT(error(from_tensor_slices(at::full({4}, 2))), HasSubstr("failed_precondition: cache: '" + path()));
  EXPECT_THAT(error(range(4)), HasSubstr("this one is 'range(0,1,4)'; remove the file, and the next pass writes it "
                                         "anew, or give each dataset a file of its own"));
  EXPECT_THAT(error(range(8).batch(2)), HasSubstr("this one is 'batch(2,0), range(0,1,8)'"));
}

TEST_F(CacheFile, OfOtherFilesIsRefusedAndOfFilesThatMovedIsNot) {
  const auto records = [this](const std::string& name) {
    fs::create_directories((folder_ / name).parent_path());
    TFRecordWriter(folder_ / name).write("x");
    return tfrecord_dataset({folder_ / name}).cache(path());
  };
  const auto read = [](const Dataset<Strings>& dataset) { return dataset.begin()->item(); };
  const auto train = records("here/train/records");
  for ([[maybe_unused]] const Strings& record : train) continue;
  EXPECT_EQ(read(records("there/train/records")), "x");
  EXPECT_THAT(error_of([&] { read(records("here/test/records")); }), HasSubstr("is of another dataset"));
}

TEST_F(CacheFile, IsReadWhateverThreadsMakeItsElements) {
  const auto same = [](const Tensor& x) { return x; };
  numbers(range(4).map(same).cache(path()));
  EXPECT_EQ(numbers(range(4).map(same, {.num_parallel_calls = 2}).prefetch(2).cache(path())), numbers(range(4)));
}

TEST_F(CacheFile, LooksAtNoFunctionToTellDatasetsApart) {
  const auto made = std::make_shared<int>(0);
  const auto dataset = from_generator([made] {
                         ++*made;
                         return [i = 0]() mutable { return i < 3 ? std::optional(at::full({}, i++)) : std::nullopt; };
                       }).cache(path());
  for (int pass = 0; pass < 3; ++pass) EXPECT_EQ(numbers(dataset).size(), 3U);
  EXPECT_EQ(*made, 1);
}

TEST_F(CacheFile, WhatCannotBeWrittenIsAnError) {
  EXPECT_THAT(error_of([&] { numbers(range(3).cache(folder_ / "none" / "cache")); }),
              HasSubstr("unavailable: cannot write '"));
  EXPECT_THAT(error_of([&] { range(3).cache(""); }), HasSubstr("invalid_argument: cache"));
}

TEST_F(CacheFile, GoesOnWhereItWasSavedWhetherTheFileIsThereOrNot) {
  const auto dataset = range(5).cache(path());
  expect_resumes(dataset.take(4));
  EXPECT_EQ(files(), 0);
  const auto filling = saved_after(2, dataset);
  numbers(dataset);
  EXPECT_EQ(rest_of(dataset, filling), (Numbers{{2}, {3}, {4}}));
  const auto reading = saved_after(2, dataset);
  expect_resumes(dataset);
  fs::remove(path());
  EXPECT_EQ(rest_of(dataset, reading), (Numbers{{2}, {3}, {4}}));
}

}  // namespace
}  // namespace tutti::data
