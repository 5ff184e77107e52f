#include "tutti/keras/layers/preprocessing/integer_lookup.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Integers = std::vector<int64_t>;

const Integers kIntegers{12, 36, 1138, 42};

Integers integer_ids(const Tensor& x) {
  const Tensor flat = x.contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

IntegerLookup adapted_lookup(const IntegerLookupOptions& options, const Tensor& integers) {
  IntegerLookup layer(options);
  layer.adapt(integers);
  return layer;
}

Tensor examples() { return at::tensor({12, 1138, 42, 42, 1000, 36}).reshape({2, 3}); }

// The examples of Keras's documentation.
TEST(IntegerLookup, GivesTheIdsOfAVocabulary) {
  EXPECT_THAT(integer_ids(IntegerLookup({.vocabulary = kIntegers})(examples())), ElementsAre(1, 3, 4, 4, 0, 2));
  EXPECT_THAT(integer_ids(IntegerLookup({.vocabulary = kIntegers})(examples().to(at::kInt))),
              ElementsAre(1, 3, 4, 4, 0, 2));
}

TEST(IntegerLookup, LearnsAVocabularyByCountThenByValueDescending) {
  const IntegerLookup layer = adapted_lookup({}, examples());
  EXPECT_THAT(layer.get_vocabulary(), ElementsAre(-1, 42, 1138, 1000, 36, 12));
  EXPECT_THAT(integer_ids(layer(examples())), ElementsAre(5, 2, 1, 1, 3, 4));
  const int64_t lowest = std::numeric_limits<int64_t>::min(), highest = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(adapted_lookup({}, at::tensor({-5, 0, 256, -256, 255}, at::kLong)).get_vocabulary(false),
              ElementsAre(256, 255, 0, -5, -256));
  EXPECT_THAT(adapted_lookup({}, at::tensor({lowest, highest, int64_t{0}})).get_vocabulary(false),
              ElementsAre(highest, 0, lowest));
}

TEST(IntegerLookup, SpreadsUnknownIntegersByRemainderOrByHash) {
  EXPECT_THAT(integer_ids(IntegerLookup({.num_oov_indices = 2, .vocabulary = kIntegers})(
                  at::tensor({12, 1138, 42, 37, 1000, 36, -3}))),
              ElementsAre(2, 4, 5, 1, 0, 3, 1));
  const Tensor unknown = at::tensor({100, 300, 700, 1100, 1700, 2000});
  const Integers vocabulary{10, 20, 30};
  EXPECT_THAT(integer_ids(IntegerLookup({.num_oov_indices = 4, .vocabulary = vocabulary})(unknown)),
              ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(integer_ids(IntegerLookup(
                  {.num_oov_indices = 4, .vocabulary = vocabulary, .oov_method = OovMethod::farmhash})(unknown)),
              ElementsAre(3, 3, 2, 2, 0, 1));
}

TEST(IntegerLookup, EncodesEachIntegerOrEachSample) {
  const Tensor samples = at::tensor({12, 1138, 42, 42, 42, 7, 36, 7}).reshape({2, 4});
  EXPECT_THAT(integer_ids(IntegerLookup({.vocabulary = kIntegers, .output_mode = OutputMode::multi_hot})(samples)),
              ElementsAre(0, 1, 0, 1, 1, /**/ 1, 0, 1, 0, 1));
  EXPECT_THAT(integer_ids(IntegerLookup({.vocabulary = kIntegers, .output_mode = OutputMode::count})(samples)),
              ElementsAre(0, 1, 0, 1, 2, /**/ 2, 0, 1, 0, 1));
  const IntegerLookup weighed({.vocabulary = Integers{-1, 12, 36, 1138, 42},
                               .idf_weights = {0.9, 0.25, 0.75, 0.6, 0.4},
                               .output_mode = OutputMode::tf_idf});
  const Tensor counts = weighed(samples);
  EXPECT_FLOAT_EQ(counts[0][4].item<float>(), 0.8);
  EXPECT_FLOAT_EQ(counts[1][0].item<float>(), 1.8);
  for (const OutputMode mode : {OutputMode::int_, OutputMode::one_hot, OutputMode::count}) {
    const IntegerLookup layer({.vocabulary = kIntegers, .output_mode = mode});
    for (const Shape& shape : {Shape{}, Shape{4}, Shape{1}, Shape{2, 3}, Shape{2, 1}, Shape{2, 3, 1}, Shape{0, 3}})
      EXPECT_EQ(layer(at::zeros(shape, at::kLong)).sizes(), layer.compute_output_shape(shape)) << to_string(shape);
  }
}

TEST(IntegerLookup, InvertsWhatItsTwinGave) {
  const IntegerLookup layer({.vocabulary = kIntegers});
  const IntegerLookup inverse({.vocabulary = layer.get_vocabulary(), .invert = true});
  EXPECT_THAT(integer_ids(inverse(layer(examples()))), ElementsAre(12, 1138, 42, 42, -1, 36));
}

TEST(IntegerLookup, AMaskIsId0) {
  const IntegerLookup layer({.mask_token = 0, .vocabulary = kIntegers});
  EXPECT_THAT(layer.get_vocabulary(), ElementsAre(0, -1, 12, 36, 1138, 42));
  EXPECT_THAT(integer_ids(layer(at::tensor({0, 12, 5}))), ElementsAre(0, 2, 1));
}

TEST(IntegerLookup, AdaptingBatchByBatchIsAdaptingToAll) {
  const Tensor integers = at::arange(12).remainder(5).reshape({4, 3});
  IntegerLookup layer({.output_mode = OutputMode::tf_idf});
  layer.adapt(std::vector{integers.narrow(0, 0, 3), integers.narrow(0, 3, 1)});
  const IntegerLookup whole = adapted_lookup({.output_mode = OutputMode::tf_idf}, integers);
  EXPECT_EQ(layer.get_vocabulary(), whole.get_vocabulary());
  EXPECT_EQ(layer.idf_weights(), whole.idf_weights());
}

TEST(IntegerLookup, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { IntegerLookup({.vocabulary = kIntegers, .salt = 7}); }),
              StartsWith("invalid_argument: integer_lookup: salt is for OovMethod::farmhash"));
  EXPECT_THAT(error_of([] { IntegerLookup({.vocabulary = Integers{3, -4, 3}}); }), HasSubstr("the token 3 twice"));
  EXPECT_THAT(error_of([] { IntegerLookup()(examples()); }), StartsWith("failed_precondition: integer_lookup: there"));
  const IntegerLookup layer({.num_oov_indices = 0, .vocabulary = kIntegers, .name = "codes"});
  EXPECT_THAT(error_of([&] { layer(examples()); }), StartsWith("invalid_argument: codes: the token 1000 is not in"));
  EXPECT_THAT(error_of([&] { layer(at::zeros({2})); }), HasSubstr("codes: the input has dtype Float"));
}

}  // namespace
}  // namespace tutti::keras::layers
