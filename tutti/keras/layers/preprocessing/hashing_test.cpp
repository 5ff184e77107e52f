#include "tutti/keras/layers/preprocessing/hashing.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Strings kLetters({"A", "B", "C", "D", "E"}, {5, 1});

std::vector<int64_t> hashed_bins(const Tensor& x) {
  const Tensor flat = x.to(at::kLong).contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

// The examples of Keras's documentation, and values of its tests.
TEST(Hashing, GivesTheBinsOfText) {
  EXPECT_THAT(hashed_bins(Hashing({.num_bins = 3})(kLetters)), ElementsAre(1, 0, 1, 1, 2));
  EXPECT_THAT(hashed_bins(Hashing({.num_bins = 3, .salt = HashSalt(133, 137)})(kLetters)), ElementsAre(1, 2, 1, 0, 2));
  EXPECT_THAT(hashed_bins(Hashing({.num_bins = 3, .salt = 133})(kLetters)), ElementsAre(0, 0, 2, 1, 0));
  EXPECT_EQ(Hashing({.num_bins = 3})("E").item<int64_t>(), 2);
}

TEST(Hashing, GivesTheBinsOfIntegersByTheirDigits) {
  EXPECT_THAT(hashed_bins(Hashing({.num_bins = 3})(at::arange(5))), ElementsAre(1, 0, 1, 0, 2));
  EXPECT_EQ(hashed_bins(Hashing({.num_bins = 1000})(at::arange(-12, -11))),
            hashed_bins(Hashing({.num_bins = 1000})("-12")));
}

TEST(Hashing, AMaskHasBin0ForItself) {
  const Strings tokens({"A", "B", "", "C", "D"}, {5, 1});
  EXPECT_THAT(hashed_bins(Hashing({.num_bins = 3, .mask_value = ""})(tokens)), ElementsAre(1, 1, 0, 2, 2));
  const Hashing integers({.num_bins = 2, .mask_value = 3});
  EXPECT_THAT(hashed_bins(integers(at::arange(5))), ElementsAre(1, 1, 1, 0, 1));
  EXPECT_THAT(hashed_bins(Hashing({.num_bins = 1, .mask_value = 3})(at::arange(5))), ElementsAre(0, 0, 0, 0, 0));
}

TEST(Hashing, EncodesEachTokenOrEachSample) {
  const Tensor one_hot = Hashing({.num_bins = 3, .output_mode = OutputMode::one_hot})(kLetters);
  EXPECT_EQ(one_hot.sizes(), (Shape{5, 3}));
  EXPECT_EQ(one_hot.scalar_type(), at::kFloat);
  EXPECT_THAT(hashed_bins(one_hot), ElementsAre(0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1));
  EXPECT_THAT(hashed_bins(Hashing({.num_bins = 3, .output_mode = OutputMode::count})(kLetters.reshape({1, 5}))),
              ElementsAre(1, 3, 1));
  EXPECT_EQ(Hashing({.num_bins = 3, .output_mode = OutputMode::multi_hot}).compute_output_shape({kUnknown, 7}),
            (Shape{kUnknown, 3}));
}

TEST(Hashing, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { Hashing({.num_bins = 0}); }), StartsWith("invalid_argument: hashing: num_bins is 0"));
  EXPECT_THAT(error_of([] { Hashing({.num_bins = 2, .output_mode = OutputMode::tf_idf}); }),
              HasSubstr("needs a vocabulary"));
  EXPECT_THAT(error_of([] { Hashing({.num_bins = 2})(at::zeros({2})); }), HasSubstr("the input has dtype Float"));
  EXPECT_THAT(error_of([] { Hashing({.num_bins = 2, .mask_value = ""})(at::arange(2)); }),
              HasSubstr("mask_value is text, the input integers"));
  EXPECT_THAT(error_of([] { Hashing({.num_bins = 2, .mask_value = 0})("a"); }),
              HasSubstr("mask_value is an integer, the input text"));
}

}  // namespace
}  // namespace tutti::keras::layers
