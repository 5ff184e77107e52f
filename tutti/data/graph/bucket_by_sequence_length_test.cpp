#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

// Pairs of `length` copies of the length, and a number.
Dataset<std::tuple<Tensor, Tensor>> sequences(std::vector<int64_t> lengths) {
  return range(static_cast<int64_t>(lengths.size())).map([lengths](const Tensor& x) {
    const int64_t length = lengths[static_cast<size_t>(x.item<int64_t>())];
    return std::tuple(at::full({length}, length, at::kLong), x);
  });
}
int64_t length_of(const Tensor& sequence, const Tensor&) { return sequence.size(0); }

Dataset<Tensor> bucketed(std::vector<int64_t> lengths, const BucketOptions& options = {}) {
  return sequences(lengths)
      .bucket_by_sequence_length(length_of, {3, 5}, {2, 2, 2}, options)
      .map([](const Tensor& batch, const Tensor&) { return batch; });
}

// The example of tf.data.Dataset.bucket_by_sequence_length's documentation, and its options.
TEST(BucketBySequenceLength, PadsToTheLongestOfABatch) {
  EXPECT_EQ(numbers(bucketed({1, 4, 5, 7, 2, 3})),
            (Numbers{{5, 5, 5, 5, 5, 0, 0, 7, 7, 7, 7, 7, 7, 7}, {1, 0, 2, 2}, {4, 4, 4, 4, 3, 3, 3, 0}}));
}

TEST(BucketBySequenceLength, ABoundaryBelongsToTheBucketAboveIt) {
  EXPECT_EQ(numbers(bucketed({3, 2, 4, 1})), (Numbers{{3, 3, 3, 0, 4, 4, 4, 4}, {2, 2, 1, 0}}));
}

TEST(BucketBySequenceLength, PadsToOneLessThanTheUpperBoundary) {
  EXPECT_EQ(numbers(bucketed({1, 3}, {.padding_value = -1, .pad_to_bucket_boundary = true})),
            (Numbers{{1, -1}, {3, 3, 3, -1}}));
  EXPECT_THAT(error_of([] {
                numbers(bucketed({5, 5}, {.pad_to_bucket_boundary = true}));
              }),
              HasSubstr("bucket_by_sequence_length: element 1: an element is not shorter than the last boundary, 5"));
}

TEST(BucketBySequenceLength, PadsToGivenShapes) {
  EXPECT_EQ(numbers(bucketed({1}, {.padded_shapes = {{4}, {}}})), (Numbers{{1, 0, 0, 0}}));
  EXPECT_EQ(numbers(bucketed({1}, {.padded_shapes = {{-1}, {}}, .pad_to_bucket_boundary = true})), (Numbers{{1, 0}}));
}

TEST(BucketBySequenceLength, StacksWithoutPadding) {
  EXPECT_EQ(numbers(bucketed({2, 2}, {.no_padding = true})), (Numbers{{2, 2, 2, 2}}));
  EXPECT_THAT(error_of([] { numbers(bucketed({1, 2}, {.no_padding = true})); }), HasSubstr("batch: leaf 0"));
}

TEST(BucketBySequenceLength, DropsTheRemainder) {
  EXPECT_EQ(numbers(bucketed({1, 4, 2}, {.drop_remainder = true})), (Numbers{{1, 0, 2, 2}}));
}

TEST(BucketBySequenceLength, ChecksItsArguments) {
  const auto bucket = [](std::vector<int64_t> boundaries, std::vector<int64_t> sizes, const BucketOptions& options) {
    return error_of([&] { sequences({1}).bucket_by_sequence_length(length_of, boundaries, sizes, options); });
  };
  EXPECT_THAT(bucket({3, 3}, {1, 1, 1}, {}),
              HasSubstr("invalid_argument: bucket_by_sequence_length: boundaries [3, 3]"));
  EXPECT_THAT(bucket({3}, {1}, {}), HasSubstr("one more batch size"));
  EXPECT_THAT(bucket({3}, {1, 0}, {}), HasSubstr("batch sizes [1, 0]"));
  EXPECT_THAT(bucket({}, {1}, {}), HasSubstr("boundaries []"));
  EXPECT_THAT(bucket({3}, {1, 1}, {.pad_to_bucket_boundary = true, .no_padding = true}), HasSubstr("exclude"));
}

}  // namespace
}  // namespace tutti::data
