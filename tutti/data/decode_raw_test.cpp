#include "tutti/data/decode_raw.h"

#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

TEST(DecodeRaw, GivesALastAxisOfElements) {
  const std::string two("\x01\x00\xff\xff", 4), more("\x00\x01\x02\x00", 4);
  const Tensor result = decode_raw(Strings({two, more}, {2, 1}), at::kShort);
  EXPECT_EQ(result.scalar_type(), at::kShort);
  EXPECT_EQ(result.sizes(), (std::vector<int64_t>{2, 1, 2}));
  EXPECT_EQ(numbers(result), (std::vector<double>{1, -1, 256, 2}));
  EXPECT_EQ(decode_raw("abc", at::kByte).sizes(), (std::vector<int64_t>{3}));
  EXPECT_EQ(decode_raw("", at::kFloat).sizes(), (std::vector<int64_t>{0}));
}

TEST(DecodeRaw, RefusesStringsThatAreNoRowsOfElements) {
  EXPECT_THAT(error_of([] { decode_raw("abc", at::kShort); }),
              HasSubstr("a string of 3 bytes; elements of Short have 2"));
  EXPECT_THAT(error_of([] {
                decode_raw(Strings(std::vector<std::string>{"a", "bc"}), at::kByte);
              }),
              HasSubstr("strings of 1 and of 2 bytes"));
}

}  // namespace
}  // namespace tutti::data
