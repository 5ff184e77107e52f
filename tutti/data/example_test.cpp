#include "tutti/data/example.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/error_of.h"

namespace tutti::data {
namespace {

const Example kAll{{{"ints", Int64List{1, -1, 300}},
                    {"floats", FloatList{0.5F, -1.25F}},
                    {"bytes", BytesList{"ab", "", std::string("\0\xff", 2)}},
                    {"none", {}},
                    {"empty", FloatList{}}}};

TEST(Example, ComesBackFromItsBytes) {
  EXPECT_EQ(Example::parse(kAll.serialize()), kAll);
  EXPECT_EQ(Example::parse(""), Example{});
  EXPECT_EQ(Example{}.serialize(), "");
}

TEST(Example, KeepsAnEmptyNameAndOneThatIsNoText) {
  const Example odd{{{"", Int64List{1}}, {"\xff", Int64List{2}}}};
  EXPECT_EQ(Example::parse(odd.serialize()), odd);
}

TEST(Example, HasTheLastFeatureOfAName) {
  const std::string one = Example{{{"a", Int64List{1}}}}.serialize(), two = Example{{{"a", Int64List{2}}}}.serialize();
  const Example both = Example::parse(one + two);
  EXPECT_EQ(both, (Example{{{"a", Int64List{2}}}}));
  ExampleReader reader;
  ASSERT_TRUE(reader.read(one + two));
  EXPECT_EQ(std::get<std::span<const int64_t>>(reader.find("a"))[0], 2);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(reader.find("b")));
}

// Numbers of older writers, each behind a tag of its own.
TEST(Example, ReadsNumbersThatAreNotPacked) {
  const std::string bytes("\x0a\x0d\x0a\x0b\x0a\x01\x61\x12\x06\x1a\x04\x08\x05\x08\x07", 15);
  EXPECT_EQ(Example::parse(bytes), (Example{{{"a", Int64List{5, 7}}}}));
}

TEST(SequenceExample, ComesBackFromItsBytes) {
  const SequenceExample sequence{.context = {{"length", Int64List{2}}},
                                 .feature_lists = {{"words", {BytesList{"a"}, BytesList{"b", "c"}}}, {"none", {}}}};
  EXPECT_EQ(SequenceExample::parse(sequence.serialize()), sequence);
  EXPECT_EQ(SequenceExample::parse(""), SequenceExample{});
}

TEST(Example, CutShortIsRefused) {
  const std::string whole = kAll.serialize();
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_EQ(code_of([&] { Example::parse(whole.substr(0, size)); }), ErrorCode::invalid_argument) << size;
    EXPECT_FALSE(ExampleReader().read(whole.substr(0, size)));
  }
}

TEST(Example, OfDamagedBytesIsRefusedOrIsAnotherExample) {
  const std::string whole = kAll.serialize();
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = whole;
    for (int change = 0; change < 3; ++change) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto code = code_of([&] { Example::parse(bytes); });
    EXPECT_TRUE(!code || code == ErrorCode::invalid_argument);
    refused += code.has_value();
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tutti::data
