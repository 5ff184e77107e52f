#include "tutti/core/json.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/error_of.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using testing::HasSubstr;

std::string text_of(const std::string& json) {
  JsonReader reader(json, "it");
  std::string value = reader.text();
  reader.end();
  return value;
}

double number_of(const std::string& json) {
  JsonReader reader(json, "it");
  const double value = reader.number();
  reader.end();
  return value;
}

int64_t integer_of(const std::string& json) {
  JsonReader reader(json, "it");
  const int64_t value = reader.integer();
  reader.end();
  return value;
}

TEST(JsonReader, ReadsNestedObjectsAndArraysInOrder) {
  JsonReader reader(R"( { "a" : [ 1 , -2 ] , "b" : { } , "c" : [ ] } )", "it");
  std::vector<std::string> seen;
  reader.object([&](std::string_view key) {
    seen.emplace_back(key);
    if (key == "a") reader.array([&] { seen.push_back(str(reader.integer())); });
    if (key == "b") reader.object([&](std::string_view) { FAIL(); });
    if (key == "c") reader.array([] { FAIL(); });
  });
  reader.end();
  EXPECT_THAT(seen, testing::ElementsAre("a", "1", "-2", "b", "c"));
}

TEST(JsonReader, ReadsEscapes) {
  EXPECT_EQ(text_of(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(text_of(R"("\u0041\u00e9\u20ac\ud83d\ude00")"), "A\u00e9\u20ac\U0001F600");
  EXPECT_EQ(text_of(R"("\u0000")"), std::string(1, '\0'));
}

TEST(JsonReader, RefusesWhatIsNotJson) {
  for (const std::string bad :
       {"\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\n\"", "\"a\" b",
        "a", "", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\""})
    EXPECT_EQ(code_of([&] { text_of(bad); }), ErrorCode::data_loss) << bad;
  for (const std::string bad : {"01", "+1", ".5", "1.", "1e", "1e+", "-", "0x10", "nan", "inf", "1e999", "1,", ""})
    EXPECT_EQ(code_of([&] { number_of(bad); }), ErrorCode::data_loss) << bad;
  for (const std::string bad : {"1.0", "1e3", "9223372036854775808", "-9223372036854775809", "\"1\""})
    EXPECT_EQ(code_of([&] { integer_of(bad); }), ErrorCode::data_loss) << bad;
}

TEST(JsonReader, RefusesAKeyThatComesTwice) {
  JsonReader reader(R"({"a":1,"b":2,"a":3})", "index.json");
  EXPECT_THAT(error_of([&] { reader.object([&](std::string_view) { reader.integer(); }); }),
              HasSubstr("index.json: byte 19: the key \"a\" comes twice"));
}

TEST(JsonReader, ReadsMembersThatAreKnownInAnyOrder) {
  const auto read = [](const std::string& json) {
    JsonReader reader(json, "it");
    std::string seen;
    reader.object("a thing", {{"a", [&] { seen += str("a", reader.integer()); }},
                              {"ab", [&] { seen += str("ab", reader.integer()); }},
                              {"c", [&] { seen += str("c", reader.text()); }}});
    reader.end();
    return seen;
  };
  EXPECT_EQ(read("{}"), "");
  EXPECT_EQ(read(R"({"a":1,"ab":2,"c":"3"})"), "a1ab2c3");
  EXPECT_EQ(read(R"( { "c" : "3" , "ab" : 2 , "a" : 1 } )"), "c3ab2a1");
  EXPECT_EQ(read(R"({"\u0061b":2,"c":"\u0033"})"), "ab2c3");
  EXPECT_THAT(error_of([&] { read(R"({"a":1,"b":2})"); }), HasSubstr("it: byte 10: unknown key \"b\" of a thing"));
  EXPECT_THAT(error_of([&] { read(R"({"a":1,"c":"","a":2})"); }), HasSubstr("the key \"a\" comes twice"));
  EXPECT_THAT(error_of([&] { read(R"({"a":1,"\u0061":2})"); }), HasSubstr("the key \"a\" comes twice"));
  for (const std::string bad :
       {R"({"a")", R"({"a":)", R"({"a" 1})", R"({"a":1)", R"({"a":1,})", R"({"a":1 "ab":2})", "{"})
    EXPECT_EQ(code_of([&] { read(bad); }), ErrorCode::data_loss) << bad;
}

TEST(JsonReader, ReadsAnArrayFromAnyOfItsElementsOn) {
  const std::string json = "[10,20,30]";
  JsonReader reader(json, "it"), other(json, "it");
  std::vector<int64_t> seen;
  const auto element = [&](JsonReader& from) { return [&] { seen.push_back(from.integer()); }; };
  ASSERT_TRUE(reader.begin_array());
  EXPECT_FALSE(reader.elements_before(4, element(reader)));
  EXPECT_EQ(reader.at(), 4);
  other.go_to(reader.at());
  EXPECT_TRUE(other.elements_before(json.size(), element(other)));
  other.end();
  EXPECT_THAT(seen, testing::ElementsAre(10, 20, 30));
  EXPECT_FALSE(JsonReader("[]", "it").begin_array());
}

TEST(JsonReader, ComparesKeysByWhatTheyMeanWithinTheirObject) {
  std::vector<std::string> seen;
  const auto read = [&](const std::string& json) {
    JsonReader reader(json, "it");
    seen.clear();
    const std::function<void(std::string_view)> member = [&](std::string_view key) {
      reader.at_text() ? void(reader.text()) : reader.object(member);
      seen.emplace_back(key);
    };
    reader.object(member);
    reader.end();
  };
  read(R"({"\u0061":{"\u0061":{"a":"\u0062"},"b":"c"},"b":"d"})");
  EXPECT_THAT(seen, testing::ElementsAre("a", "a", "b", "a", "b"));
  EXPECT_THAT(error_of([&] { read(R"({"a":"x","\u0061":"y"})"); }), HasSubstr("the key \"a\" comes twice"));
  std::string many = "{";
  for (int i = 0; i < 40; ++i) many += str('"', i, "\":\"\",");
  read(many + R"("40":""})");
  EXPECT_EQ(seen.size(), 41);
  EXPECT_THAT(error_of([&] { read(many + R"("17":""})"); }), HasSubstr("the key \"17\" comes twice"));
}

TEST(JsonReader, NamesThePlaceOfTheFault) {
  JsonReader reader(R"({"a" 1})", "index.json");
  EXPECT_EQ(error_of([&] { reader.object([](std::string_view) {}); }),
            "data_loss: index.json: byte 5: expected ':', found '1'");
}

TEST(JsonReader, EndsWithAnErrorOnEveryTruncation) {
  const std::string whole = R"({"a":[1,2.5],"b":{"c":"d\u00e9"}})";
  const auto read = [](const std::string& json) {
    JsonReader reader(json, "it");
    reader.object([&](std::string_view key) {
      if (key == "a") reader.array([&] { reader.number(); });
      if (key == "b") reader.object([&](std::string_view) { reader.text(); });
    });
    reader.end();
  };
  read(whole);
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_EQ(code_of([&] { read(whole.substr(0, length)); }), ErrorCode::data_loss) << length;
}

TEST(Json, NumbersReadBackBitForBit) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(std::bit_cast<uint64_t>(number_of(json_number(value))), std::bit_cast<uint64_t>(value));
  }
  EXPECT_EQ(json_number(5), "5.0");
  EXPECT_TRUE(std::signbit(number_of(json_number(-0.0))));
  EXPECT_EQ(integer_of(str(std::numeric_limits<int64_t>::min())), std::numeric_limits<int64_t>::min());
}

TEST(Json, TextReadsBack) {
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  all += "\u00e9\u20ac\U0001F600";
  EXPECT_EQ(text_of(json_text(all)), all);
  EXPECT_TRUE(is_utf8(all));
  EXPECT_FALSE(is_utf8("\xc3"));
}

TEST(JsonReader, PassesOverAnyValueThatIsNotTooDeep) {
  const auto skip = [](const std::string& json) {
    JsonReader reader(json, "it");
    reader.skip();
    reader.end();
  };
  for (const char* json :
       {"1", "-2.5e3", "true", "false", "null", "\"a\\n\"", "[]", "{}", R"([1, {"a": [null, {}]}, "b"])"})
    EXPECT_EQ(error_of([&] { skip(json); }), "no error") << json;
  for (const char* json : {"", "tru", "nul", "[1", "{\"a\"}", "[1,]", "+1", "\"a"})
    EXPECT_THAT(error_of([&] { skip(json); }), HasSubstr("data_loss: it: byte")) << json;
  EXPECT_EQ(error_of([&] { skip(std::string(64, '[') + std::string(64, ']')); }), "no error");
  EXPECT_THAT(error_of([&] { skip(std::string(1'000'000, '[')); }), HasSubstr("too many objects and arrays"));
}

}  // namespace
}  // namespace tutti
