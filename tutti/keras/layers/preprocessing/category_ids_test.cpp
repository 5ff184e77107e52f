#include "tutti/keras/layers/preprocessing/category_ids.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = CategoryIdsOptions::Kind;
using Key = CrossedIdsOptions::Key;

constexpr int64_t kNone = kNoCategory;

Tensor lengths(std::vector<int64_t> numbers) { return at::tensor(numbers, at::kLong); }

CategoryIdsOptions pets() {
  const std::vector<std::string> words{"cat", "dog"};
  return {.column = "pet",
          .feature = "pet",
          .kind = Kind::vocabulary,
          .vocabulary = std::make_shared<const std::vector<std::string>>(words)};
}

TEST(CategoryIds, TellWhatIsMissingFromWhatIsUnknown) {
  const Strings values({"dog", "", "yak", "cat", "dog", "cat"}, {2, 3});
  const Tensor ids = CategoryIds(pets())({values, lengths({3, 2})});
  EXPECT_TRUE(at::equal(ids, at::tensor({int64_t{1}, kNone, int64_t{-1}, int64_t{0}, int64_t{1}, kNone}).view({2, 3})));
  EXPECT_EQ(CategoryIds(pets())({Strings(std::vector<std::string>(), {0, 3})}).size(0), 0);
}

TEST(CategoryIds, ReadNothingBehindTheirFeature) {
  const CategoryIds ids(pets());
  const Strings values({"dog", "cat"}, {1, 2});
  for (const int64_t length : {int64_t{3}, int64_t{-1}, int64_t{1} << 62})
    EXPECT_THAT(error_of([&] { ids({values, lengths({length})}); }), HasSubstr("a row of its feature has the length"));
  EXPECT_THAT(error_of([&] { ids({values, lengths({1, 1})}); }), HasSubstr("1 rows and 2 lengths"));
  EXPECT_THAT(error_of([&] { ids({values, values}); }), HasSubstr("the lengths of its feature are text"));
  EXPECT_THAT(error_of([&] { ids({at::zeros({2})}); }), HasSubstr("is integers, and the column is of text"));
}

TEST(CategoryIds, RefuseInTheNameOfTheColumnWhatHasNoBucket) {
  const CategoryIds ids(
      {.column = "level", .is_text = false, .kind = Kind::identity, .num_buckets = 3, .refused_from = 3});
  EXPECT_TRUE(at::equal(ids({lengths({2, -1})}), at::tensor({int64_t{2}, kNone}).view({2, 1})));
  EXPECT_THAT(error_of([&] { ids({lengths({3})}); }),
              ::testing::AllOf(StartsWith("out_of_range"), HasSubstr("'level': category 3 is not one of [0, 3)")));
  EXPECT_THAT(error_of([&] { ids({at::zeros({2})}); }), HasSubstr("its input is no integers"));
}

TEST(CrossedIds, RefuseMoreCombinationsThanMemoryHas) {
  const CrossedIds crossed({.column = "a_X_b_X_c", .hash_bucket_size = 9, .keys = {Key::ids, Key::ids, Key::ids}});
  const Tensor many = at::zeros({1, 1000}, at::kLong);
  EXPECT_THAT(error_of([&] { crossed({many, many, many}); }), StartsWith("resource_exhausted"));
  EXPECT_EQ(crossed({many, many, at::zeros({1, 2}, at::kLong)}).size(1), 2'000'000);
  EXPECT_THAT(error_of([&] { crossed({many, at::zeros({2, 1}, at::kLong), many}); }), HasSubstr("1 and 2 examples"));
}

}  // namespace
}  // namespace tutti::keras::layers
