#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/dataset_values.h"
#include "tests/support/saved_iterators.h"

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
  EXPECT_EQ(numbers(range(0).cache(path())), Numbers{});
  const auto of_unknown_size = range(5).filter([](const Tensor&) { return true; });
  EXPECT_EQ(numbers(of_unknown_size.cache(path())), Numbers{}) << "the file is read";
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
  EXPECT_EQ(numbers(unknown.cache(path())).size(), 5) << "nobody knows without running it";
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
