#include "tutti/keras/layers/preprocessing/text_vectorization.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ranges>
#include <thread>

#include "tests/support/error_of.h"

namespace tutti::keras::layers {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const Strings kTexts(std::vector<std::string>{"foo bar", "bar baz", "baz bada boom"});

std::vector<int64_t> values(const Tensor& x) {
  return {x.const_data_ptr<int64_t>(), x.const_data_ptr<int64_t>() + x.numel()};
}

TextVectorization adapted_text(const TextVectorizationOptions& options, const Strings& texts = kTexts) {
  TextVectorization layer(options);
  layer.adapt(texts);
  return layer;
}

// A file that is gone when the test ends.
class TemporaryFile {
 public:
  TemporaryFile() : path_(std::filesystem::temp_directory_path() / ("tutti_vocabulary_" + std::to_string(getpid()))) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The example of Keras's documentation.
TEST(TextVectorization, OrdersTokensByCountThenByBytesBothDescending) {
  const TextVectorization layer = adapted_text({.output_sequence_length = 4});
  EXPECT_THAT(layer.get_vocabulary(), ElementsAre("", "[UNK]", "baz", "bar", "foo", "boom", "bada"));
  EXPECT_THAT(layer.get_vocabulary(/*include_special_tokens=*/false), ElementsAre("baz", "bar", "foo", "boom", "bada"));
  const Tensor ids = layer(Strings(std::vector<std::string>{"foo qux bar", "qux baz"}));
  EXPECT_EQ(ids.sizes(), (std::vector<int64_t>{2, 4}));
  EXPECT_THAT(values(ids), ElementsAre(4, 1, 3, 0, 1, 2, 0, 0));
}

TEST(TextVectorization, IsAsWideAsTheLongestRow) {
  const TextVectorization layer = adapted_text({});
  EXPECT_THAT(values(layer(Strings(std::vector<std::string>{"", "Bar, bar!"}))), ElementsAre(0, 0, 3, 3));
  EXPECT_EQ(layer(Strings(std::vector<std::string>{})).sizes(), (std::vector<int64_t>{0, 0}));
  EXPECT_THAT(values(layer("foo bar baz")), ElementsAre(4, 3, 2));
  EXPECT_EQ(layer(Strings({"foo", "bar baz"}, {1, 2, 1})).sizes(), (std::vector<int64_t>{1, 2, 2}));
}

TEST(TextVectorization, CountsAndWeighsTokens) {
  const Strings text(std::vector<std::string>{"baz baz qux", ""});
  const Tensor counts = adapted_text({.output_mode = OutputMode::count})(text);
  EXPECT_THAT(values(counts), ElementsAre(1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  const Tensor hot = adapted_text({.max_tokens = 3, .output_mode = OutputMode::multi_hot})(text);
  EXPECT_THAT(values(hot), ElementsAre(1, 1, 0, 0, 0, 0));

  const TextVectorization layer = adapted_text({.output_mode = OutputMode::tf_idf});
  const float common = std::log(2.0F), rare = std::log(2.5F), mean = (2 * common + 3 * rare) / 5;
  EXPECT_THAT(layer.idf_weights(), ElementsAre(FloatEq(mean), FloatEq(common), FloatEq(common), FloatEq(rare),
                                               FloatEq(rare), FloatEq(rare)));
  const Tensor weighed = layer(text);
  EXPECT_EQ(weighed.scalar_type(), at::kFloat);
  EXPECT_FLOAT_EQ(weighed[0][0].item<float>(), mean);
  EXPECT_FLOAT_EQ(weighed[0][1].item<float>(), 2 * common);
  EXPECT_EQ(weighed[1].count_nonzero().item<int64_t>(), 0);
}

TEST(TextVectorization, PadsToMaxTokens) {
  const TextVectorization layer =
      adapted_text({.max_tokens = 9, .output_mode = OutputMode::count, .pad_to_max_tokens = true});
  EXPECT_EQ(layer.vocabulary_size(), 6);
  EXPECT_THAT(values(layer("baz")), ElementsAre(0, 1, 0, 0, 0, 0, 0, 0, 0));
}

TEST(TextVectorization, AdaptsToAnyRangeOfBatchesAndStartsAnew) {
  TextVectorization layer;
  layer.adapt(std::vector{kTexts.rows(0, 2), kTexts.rows(2, 1)});
  EXPECT_EQ(layer.get_vocabulary(), adapted_text({}).get_vocabulary());
  layer.adapt(std::views::iota(0, 3) | std::views::transform([](int i) { return "word" + std::to_string(i % 2); }));
  EXPECT_THAT(layer.get_vocabulary(), ElementsAre("", "[UNK]", "word0", "word1"));
}

TEST(TextVectorization, KeepsTheVocabularyWhenABatchThrows) {
  TextVectorization layer = adapted_text({});
  const auto batches = std::views::iota(0, 2) | std::views::transform([](int i) -> Strings {
                         if (i == 1) throw Error(ErrorCode::data_loss, "torn");
                         return "other";
                       });
  EXPECT_EQ(error_of([&] { layer.adapt(batches); }), "data_loss: torn");
  EXPECT_EQ(layer.get_vocabulary(), adapted_text({}).get_vocabulary());
}

TEST(TextVectorization, CopiesHaveOneVocabulary) {
  TextVectorization layer;
  const TextVectorization copy = layer;
  layer.adapt(kTexts);
  EXPECT_EQ(copy.vocabulary_size(), 7);
}

TEST(TextVectorization, TakesFunctionsToStandardizeAndSplit) {
  const TextVectorization layer =
      adapted_text({.standardize = [](std::string_view text) { return "<" + std::string(text) + ">"; },
                    .split =
                        [](std::string_view text) {
                          const size_t at = text.find(' ');
                          return std::vector{std::string(text.substr(0, at)), std::string(text.substr(at))};
                        }},
                   Strings(std::vector<std::string>{"a b"}));
  EXPECT_THAT(layer.get_vocabulary(false), ElementsAre("<a", " b>"));
}

TEST(TextVectorization, WithoutSplitTextsAreTokensAlongTheLastAxis) {
  const TextVectorizationOptions options{.split = Split::none};
  const TextVectorization layer = adapted_text(options, Strings(std::vector<std::string>{"b b", "a", "A"}));
  EXPECT_THAT(layer.get_vocabulary(false), ElementsAre("a", "b b"));
  EXPECT_EQ(layer("b b").dim(), 0);
  EXPECT_THAT(values(layer(Strings({"a", "", "c", "b b"}, {2, 2}))), ElementsAre(2, 0, 1, 3));
  const TextVectorization counts =
      adapted_text({.split = Split::none, .output_mode = OutputMode::count}, Strings(std::vector<std::string>{"a"}));
  EXPECT_THAT(values(counts(Strings(std::vector<std::string>{"a", "", "a", "c"}))), ElementsAre(1, 2));
}

TEST(TextVectorization, JoinsNgramsOfTheWidthsInTheirOrder) {
  const Strings text = "a b c";
  EXPECT_THAT(adapted_text({.ngrams = 2}, text).get_vocabulary(false), ElementsAre("c", "b c", "b", "a b", "a"));
  const TextVectorization layer({.ngrams = {3, 1}, .vocabulary = {{"a", "b", "c", "a b c"}}});
  EXPECT_THAT(values(layer(text)), ElementsAre(5, 2, 3, 4));
  EXPECT_THAT(values(layer("a b")), ElementsAre(2, 3));
}

TEST(TextVectorization, RaggedRowsHaveTheirOwnLength) {
  const auto rows =
      adapted_text({.output_sequence_length = 2}).ragged(Strings(std::vector<std::string>{"", "foo x bar"}));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].numel(), 0);
  EXPECT_THAT(values(rows[1]), ElementsAre(4, 1));
}

TEST(TextVectorization, SplitsUtf8IntoCodePoints) {
  const Strings text = "é日😀";
  EXPECT_THAT(adapted_text({.split = Split::character}, text).get_vocabulary(false), ElementsAre("😀", "日", "é"));
}

// Each maximal subpart becomes one U+FFFD (The Unicode Standard, table 3-8).
TEST(TextVectorization, CharactersThatAreNotUtf8AreReplaced) {
  const Strings text = "a\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\xED\xA0\x80\xC0\xAF\xF4\x90\xE2\x82";
  const TextVectorization layer({.split = Split::character, .vocabulary = {{"a", "b", "c", "\uFFFD"}}});
  EXPECT_THAT(values(layer(text)), ElementsAre(2, 5, 5, 5, 3, 5, 4, 5, 5, 5, 5, 5, 5, 5, 5));
  EXPECT_THAT(adapted_text({}, "b\xC3 \xFF").get_vocabulary(false), ElementsAre("\xFF", "b\xC3"));
}

TEST(TextVectorization, AVocabularyMayHaveTheSpecialTokensInFront) {
  const TextVectorization plain({.vocabulary = {{"x", "y"}}});
  const TextVectorization special({.vocabulary = {{"", "[UNK]", "x", "y"}}});
  EXPECT_EQ(plain.get_vocabulary(), special.get_vocabulary());
  TextVectorization weighed({.output_mode = OutputMode::tf_idf, .vocabulary = {{"x", "y"}}, .idf_weights = {0.5, 1}});
  EXPECT_THAT(weighed.idf_weights(), ElementsAre(0.75, 0.5, 1));
  weighed.set_vocabulary(weighed.get_vocabulary(), weighed.idf_weights());
  EXPECT_THAT(weighed.idf_weights(), ElementsAre(0.75, 0.5, 1));
  EXPECT_THAT(weighed.get_vocabulary(), ElementsAre("[UNK]", "x", "y"));
}

TEST(TextVectorization, SavesAndLoadsItsVocabulary) {
  const TemporaryFile file;
  const TextVectorization saved = adapted_text({}, "naïve\xFF c\rd 日");
  saved.save_vocabulary(file.path());
  TextVectorization loaded;
  loaded.load_vocabulary(file.path());
  EXPECT_EQ(loaded.get_vocabulary(), saved.get_vocabulary());

  std::ofstream(file.path()) << "x\ny";  // as Keras writes it: nothing behind the last token
  loaded.load_vocabulary(file.path());
  EXPECT_THAT(loaded.get_vocabulary(false), ElementsAre("x", "y"));
}

TEST(TextVectorization, RefusesToSaveATokenThatIsNoLine) {
  const TemporaryFile file;
  const TextVectorization layer = adapted_text({.split = Split::none}, "two\nlines");
  EXPECT_THAT(error_of([&] { layer.save_vocabulary(file.path()); }),
              StartsWith(R"(invalid_argument: TextVectorization: the token "two\nlines" has a line feed)"));
  EXPECT_FALSE(std::filesystem::exists(file.path()));
  EXPECT_THAT(error_of([&] { TextVectorization().save_vocabulary(file.path()); }), HasSubstr("failed_precondition"));
  EXPECT_THAT(error_of([&] { TextVectorization().load_vocabulary(file.path()); }), StartsWith("not_found"));
  EXPECT_THAT(error_of([&] { adapted_text({}).save_vocabulary(file.path() / "x"); }), StartsWith("unavailable"));
}

TEST(TextVectorization, AMillionDistinctTokens) {
  constexpr int64_t kTokens = 1'000'000, kPerText = 1'000;
  const auto texts = std::views::iota(int64_t{0}, kTokens / kPerText) | std::views::transform([](int64_t text) {
                       std::string words;
                       for (int64_t i = 0; i < kPerText; ++i) words += std::to_string(text * kPerText + i) + " ";
                       return words;
                     });
  TextVectorization layer;
  layer.adapt(texts);
  EXPECT_EQ(layer.vocabulary_size(), kTokens + 2);
  EXPECT_THAT(values(layer("999999 0 10 1000000 99999")), ElementsAre(2, kTokens + 1, kTokens - 1, 1, 12));
  const TemporaryFile file;
  layer.save_vocabulary(file.path());
  TextVectorization loaded;
  loaded.load_vocabulary(file.path());
  EXPECT_EQ(loaded.get_vocabulary(), layer.get_vocabulary());
}

TEST(TextVectorization, ThreadsMayCallAtOnce) {
  const TextVectorization layer = adapted_text({.output_mode = OutputMode::tf_idf});
  const Strings text(std::vector<std::string>(200, "foo bar baz qux"));
  const Tensor expected = layer(text);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_TRUE(at::equal(layer(text), expected)); });
}

TEST(TextVectorization, WhatAFunctionOfTheUsersThrowsComesThrough) {
  const TextVectorization layer({.standardize = [](std::string_view text) -> std::string {
                                   if (text == "bad") throw Error(ErrorCode::data_loss, "bad text");
                                   return std::string(text.substr(0, 4));
                                 },
                                 .vocabulary = {{"good"}}});
  std::vector<std::string> texts(100, "good" + std::string(100'000, ' '));  // enough for several threads
  EXPECT_EQ(layer(Strings(texts)).sum().item<int64_t>(), 200);
  texts[70] = "bad";
  EXPECT_EQ(error_of([&] { layer(Strings(texts)); }), "data_loss: bad text");
}

std::string error_of_options(const TextVectorizationOptions& options) {
  return error_of([&] { TextVectorization layer(options); });
}

TEST(TextVectorization, RefusesOptionsThatContradict) {
  EXPECT_THAT(error_of_options({.max_tokens = 1}), HasSubstr("must be at least 2"));
  EXPECT_THAT(error_of_options({.pad_to_max_tokens = true}), HasSubstr("pad_to_max_tokens needs max_tokens"));
  EXPECT_THAT(error_of_options({.output_mode = OutputMode::one_hot}), HasSubstr("StringLookup has it"));
  EXPECT_THAT(error_of_options({.output_mode = OutputMode::count, .output_sequence_length = 3}),
              HasSubstr("output_sequence_length is for OutputMode::int_"));
  EXPECT_THAT(error_of_options({.output_sequence_length = -1}), HasSubstr("must not be negative"));
  EXPECT_THAT(error_of_options({.idf_weights = {1}}), HasSubstr("idf_weights without a vocabulary"));
  EXPECT_THAT(error_of([] { Ngrams(0); }), StartsWith("invalid_argument: Ngrams: the widest is 0"));
  EXPECT_THAT(error_of([] { (Ngrams{1, -2}); }), StartsWith("invalid_argument: Ngrams: the widths are [1, -2]"));
}

TEST(TextVectorization, RefusesVocabularies) {
  const OutputMode tf_idf = OutputMode::tf_idf;
  EXPECT_THAT(error_of_options({.vocabulary = std::vector<std::string>{}}), HasSubstr("the vocabulary is empty"));
  EXPECT_THAT(error_of_options({.vocabulary = {{"a", "b", "a"}}}), HasSubstr(R"(the token "a" twice)"));
  EXPECT_THAT(error_of_options({.vocabulary = {{"a", "", "b"}}}),
              HasSubstr(R"(has the special token "" among the others)"));
  EXPECT_THAT(error_of_options({.max_tokens = 3, .vocabulary = {{"a", "b"}}}),
              HasSubstr("a vocabulary of 4 tokens, special ones included; max_tokens is 3"));
  EXPECT_THAT(error_of_options({.output_mode = tf_idf, .vocabulary = {{"a", "b"}}}), HasSubstr("needs idf_weights"));
  EXPECT_THAT(error_of_options({.output_mode = tf_idf, .vocabulary = {{"a", "b"}}, .idf_weights = {1}}),
              HasSubstr("1 idf_weights for a vocabulary of 2 tokens"));
  EXPECT_THAT(error_of_options({.vocabulary = {{"a", "b"}}, .idf_weights = {1, 1}}),
              HasSubstr("idf_weights are for OutputMode::tf_idf only"));
}

TEST(TextVectorization, ARefusedVocabularyLeavesTheOldOne) {
  TextVectorization layer = adapted_text({});
  EXPECT_THAT(error_of([&] { layer.set_vocabulary({"a", "a"}); }), HasSubstr("twice"));
  EXPECT_THAT(error_of([&] { layer.adapt(Strings("  ")); }),
              StartsWith("failed_precondition: TextVectorization: adapt() found no token in 1 documents"));
  EXPECT_EQ(layer.vocabulary_size(), 7);
}

TEST(TextVectorization, RefusesCallsThatItIsNotReadyFor) {
  TextVectorization layer;
  EXPECT_THAT(error_of([&] { layer(kTexts); }), StartsWith("failed_precondition: TextVectorization: there is no"));
  EXPECT_THAT(layer.get_vocabulary(), ElementsAre("", "[UNK]"));
  TextVectorization given({.vocabulary = {{"a"}}});
  EXPECT_THAT(error_of([&] { given.adapt(kTexts); }), StartsWith("invalid_argument"));
  EXPECT_THAT(error_of([&] { given(Strings({"a", "b"}, {1, 2})); }), HasSubstr("the last must be of size 1"));
  const TextVectorization counts = adapted_text({.output_mode = OutputMode::count});
  EXPECT_THAT(error_of([&] { counts(Strings({"a", "b"}, {1, 2, 1})); }), HasSubstr("rows along more than one axis"));
  EXPECT_THAT(error_of([&] { counts.ragged(kTexts); }), HasSubstr("ragged() is for OutputMode::int_"));
}

}  // namespace
}  // namespace tutti::keras::layers
