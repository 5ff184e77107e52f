#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <atomic>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

// 0, 1, … n - 1, counting how often they were computed.
Dataset<Tensor> counted(int64_t n, std::atomic<int>& calls) {
  return range(n).map([&calls](const Tensor& x) {
    ++calls;
    return x + 0;
  });
}

TEST(Cache, ComputesOnce) {
  std::atomic<int> calls = 0;
  const auto dataset = counted(100, calls).cache();
  EXPECT_EQ(numbers(dataset), numbers(range(100)));
  EXPECT_EQ(numbers(dataset.repeat(2)), numbers(range(100).repeat(2)));
  EXPECT_EQ(calls, 100);
}

TEST(Cache, APassThatIsLeftEarlyKeepsNothing) {
  std::atomic<int> calls = 0;
  const auto dataset = counted(10, calls).cache();
  EXPECT_EQ(numbers(dataset.take(3)).size(), 3U);
  EXPECT_EQ(numbers(dataset), numbers(range(10)));
  EXPECT_EQ(calls, 13);
}

TEST(Cache, NoticesAWriteIntoItsRows) {
  const auto dataset = range(3).cache();
  numbers(dataset);
  (*dataset.begin()).fill_(7);
  EXPECT_THAT(error_of([&] { numbers(dataset); }), ::testing::HasSubstr("failed_precondition"));
}

TEST(Cache, IsNotChangedByWritesToWhatItCached) {
  const Tensor shared = at::zeros({2});
  const auto dataset = range(3).map([shared](const Tensor& x) { return shared.fill_(x.item<double>()); }).cache();
  EXPECT_EQ(numbers(dataset), (Numbers{{0, 0}, {1, 1}, {2, 2}}));
  EXPECT_EQ(numbers(dataset), (Numbers{{0, 0}, {1, 1}, {2, 2}}));
}

TEST(Cache, ResolvesConjugateViews) {
  const auto dataset =
      range(3).map([](const Tensor& x) { return at::complex(x.to(at::kDouble), x.to(at::kDouble) + 1).conj(); });
  for (int pass = 0; pass < 2; ++pass)
    for (const Tensor& batch : dataset.cache().shuffle(3, {.seed = 0}).batch(3))
      EXPECT_EQ(numbers(at::imag(batch) + at::real(batch)), std::vector<double>(3, -1));
}

TEST(Cache, TakesRaggedElementsAndChangingDtypes) {
  const auto ragged = range(40).map([](const Tensor& x) {
    const auto i = x.item<int64_t>();
    return at::full({i % 4 < 2 ? 3 : i}, static_cast<double>(i), i % 5 == 0 ? at::kInt : at::kFloat);
  });
  const auto cached = ragged.cache();
  EXPECT_EQ(numbers(cached), numbers(ragged));
  EXPECT_EQ(numbers(cached), numbers(ragged));
  EXPECT_EQ((*cached.begin()).scalar_type(), at::kInt);
}

TEST(Cache, ServesBatchesFromStoredRows) {
  const auto cached = range(100).map([](const Tensor& x) { return std::tuple(x.expand({3}) * 2, x); }).cache();
  for (int pass = 0; pass < 3; ++pass)
    for (const auto& [rows, x] : cached.shuffle(100, {.seed = 2}).batch(7))
      EXPECT_EQ(numbers(rows), numbers((x * 2).unsqueeze(1).expand({x.size(0), 3})));
}

TEST(Cache, OfAnUnknownNumberOfElements) {
  const auto dataset = range(10).batch(3).unbatch().cache();
  EXPECT_EQ(numbers(dataset), numbers(range(10)));
  EXPECT_EQ(numbers(dataset), numbers(range(10)));
}

TEST(Cache, OfNothing) {
  const auto dataset = range(0).cache();
  EXPECT_EQ(numbers(dataset), Numbers{});
  EXPECT_EQ(numbers(dataset), Numbers{});
}

TEST(Cache, KeepsSparseTensors) {
  const auto cached = range(3).map([](const Tensor& x) { return x.view({1}).to_sparse(); }).cache();
  for (int pass = 0; pass < 2; ++pass)
    EXPECT_EQ(numbers(cached.map([](const Tensor& x) { return x.to_dense(); })), (Numbers{{0}, {1}, {2}}));
}

}  // namespace
}  // namespace tutti::data
