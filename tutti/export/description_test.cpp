#include "tutti/export/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tutti/checkpoint/sealed_json.h"
#include "tutti/core/error.h"
#include "tutti/export/size_fit.h"

namespace tutti::saved_model {
namespace {

using Kind = Argument::Kind;

Description sample_description() {
  Program program{.name = "serving_default"};
  program.inputs = {TextSpec({.name = "text"}),
                    TensorSpec({.name = "x \"y\"", .shape = {kUnknown, 3}, .dtype = at::kLong})};
  program.variables = {"net/kernel"};
  program.sizes = {{{0, 0}, {1, 0}}, {{3, 1}}};
  program.calls.push_back({.op = "text_vectorization",
                           .is_step = true,
                           .version = 1,
                           .arguments = {{"input", {.kind = Kind::value, .values = {0}}}},
                           .config = "{\"split\": \"whitespace\", \"ngrams\": [1, 2]}",
                           .results = {{.values = {3}}}});
  program.calls.push_back(
      {.op = "aten::everything",
       .arguments = {{"a", {}},
                     {"b", {.kind = Kind::values, .values = {1, -1, 3}}},
                     {"c", {.kind = Kind::booleans, .integers = {{1}, {0}}}},
                     {"d", {.kind = Kind::integers, .integers = {{-7, {{2, {0}}, {1, {0, 1}}}}, {5}}}},
                     {"e",
                      {.kind = Kind::numbers, .numbers = {0.1, -0.0, std::numeric_limits<double>::infinity(), 1e-300}}},
                     {"f", {.kind = Kind::text, .text = "mean\n"}},
                     {"g", {.kind = Kind::device}},
                     {"h", {.kind = Kind::number_scalar, .numbers = {2}}}},
       .results = {{.values = {4}}, {.is_list = true, .values = {5, 6}}, {.values = {-1}}, {.values = {3}}}});
  program.outputs = {{TensorSpec({.name = "result", .shape = {kUnknown}}), 5}};
  return {.torch_version = "2.13.0",
          .files = {{"variables.safetensors", 120, 0xdeadbeef}, {"assets/vocabulary_0.txt", 7, 1}},
          .variables = {{"net/kernel", true}},
          .signatures = {program}};
}

void expect_refused(const Description& description) {
  EXPECT_THROW(parse_description(description_text(description), "it"), Error) << description_text(description);
}

TEST(Description, IsReadAsItWasWritten) {
  const Description description = sample_description();
  EXPECT_EQ(parse_description(description_text(description), "it"), description) << description_text(description);
}

TEST(Description, IsRefusedCutShortOrWithABitFlipped) {
  const std::string text = description_text(sample_description());
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse_description(text.substr(0, length), "it"), Error) << length;
  for (size_t at = 0; at < text.size(); ++at) {
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 7));
    EXPECT_THROW(parse_description(flipped, "it"), Error) << at;
  }
}

// With a checksum that fits: what a stranger writes. It throws an Error, or it is a description.
TEST(Description, OfAStrangerIsReadOrRefused) {
  const std::string text = checkpoint::unseal(description_text(sample_description()), "it");
  size_t num_refused = 0;
  for (size_t at = 1; at + 1 < text.size(); ++at) {
    for (const char other : {'0', '9', '-', '"', '[', ']', '}', ','}) {
      std::string changed = text;
      changed[at] = other;
      try {
        parse_description(checkpoint::seal(changed), "it");
      } catch (const Error&) {
        ++num_refused;
      }
    }
  }
  EXPECT_GT(num_refused, 1000U);
}

TEST(Description, NamesNoFileOutsideOfItsFolder) {
  for (const char* name : {"../x", "/etc/passwd", "assets/../x", "a/b", "assets/a/b", "", ".hidden", "assets/",
                           "assets", "saved_model.json", "a\\b", "assets/.."}) {
    Description description = sample_description();
    description.files[0].name = name;
    expect_refused(description);
  }
}

TEST(Description, UsesNothingBeforeItIsThere) {
  const auto changed = [](auto change) {
    Description description = sample_description();
    change(description.signatures[0]);
    expect_refused(description);
  };
  changed([](Program& program) { program.calls[1].arguments[1].argument.values[0] = 4; });
  changed([](Program& program) { program.calls[1].arguments[3].argument.integers[0].terms[0].sizes[0] = 2; });
  changed([](Program& program) { program.calls[1].results[0].values[0] = 9; });
  changed([](Program& program) { program.calls[0].results[0].values[0] = 0; });
  changed([](Program& program) { program.outputs[0].value = 7; });
  changed([](Program& program) { program.variables[0] = "another"; });
  changed([](Program& program) { program.sizes[0][0].value = 7; });
  changed([](Program& program) { program.sizes[1].clear(); });
  changed([](Program& program) { std::swap(program.calls[0], program.calls[1]); });
  changed([](Program& program) { program.inputs[1].name = "text"; });
  changed([](Program& program) { program.name = "../x"; });
}

TEST(SizePoints, FindSumsAndProductsOfSizes) {
  SizePoints points(3);
  const auto fit = [&](auto f) {
    const auto values = [&] {
      std::vector<int64_t> values;
      for (const auto& sizes : points.all()) values.push_back(f(sizes[0], sizes[1], sizes[2]));
      return values;
    };
    points.add_products(values());
    return points.fit(values());
  };
  EXPECT_EQ(fit([](auto, auto, auto) { return 7; }), Integer{7});
  EXPECT_EQ(fit([](auto a, auto, auto) { return 3 * a - 2; }), (Integer{-2, {{3, {0}}}}));
  EXPECT_EQ(fit([](auto a, auto b, auto c) { return 2 * a * c + b * c - c + 5; }),
            (Integer{5, {{2, {0, 2}}, {1, {1, 2}}, {-1, {2}}}}));
  EXPECT_EQ(fit([](auto a, auto, auto) { return a * a; }), std::nullopt);
  EXPECT_EQ(fit([](auto, auto b, auto) { return b / 8 * 8; }), std::nullopt);
  EXPECT_EQ(fit([](auto, auto b, auto) { return b / 2; }), std::nullopt);
  EXPECT_EQ(fit([](auto a, auto b, auto c) { return a * b * c; }), std::nullopt);
  EXPECT_EQ(fit([](auto a, auto, auto) { return a > 8 ? a : 8; }), std::nullopt);
}

}  // namespace
}  // namespace tutti::saved_model
