#include "tutti/keras/layers/preprocessing/string_lookup.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace tutti::keras::layers {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

const Words kWords{"a", "b", "c", "d"};
const Strings kTokens({"a", "c", "d", "d", "d", "z", "b", "z"}, {2, 4});

template <class T>
std::vector<T> values(const Tensor& x) {
  const Tensor flat = x.contiguous();
  return {flat.const_data_ptr<T>(), flat.const_data_ptr<T>() + flat.numel()};
}
std::vector<int64_t> word_ids(const Tensor& x) { return values<int64_t>(x); }

StringLookup adapted_words(const StringLookupOptions& options, const Strings& tokens) {
  StringLookup layer(options);
  layer.adapt(tokens);
  return layer;
}

// The examples of Keras's documentation.
TEST(StringLookup, GivesTheIdsOfAVocabulary) {
  const StringLookup layer({.vocabulary = kWords});
  EXPECT_THAT(word_ids(layer(Strings({"a", "c", "d", "d", "z", "b"}, {2, 3}))), ElementsAre(1, 3, 4, 4, 0, 2));
  EXPECT_THAT(layer.get_vocabulary(), ElementsAre("[UNK]", "a", "b", "c", "d"));
  EXPECT_EQ(layer("b").item<int64_t>(), 2);
}

TEST(StringLookup, LearnsAVocabularyByCountThenByBytesDescending) {
  const Strings tokens({"a", "c", "d", "d", "z", "b"}, {2, 3});
  const StringLookup layer = adapted_words({}, tokens);
  EXPECT_THAT(layer.get_vocabulary(), ElementsAre("[UNK]", "d", "z", "c", "b", "a"));
  EXPECT_THAT(word_ids(layer(tokens)), ElementsAre(5, 3, 1, 1, 2, 4));
  EXPECT_THAT(adapted_words({.max_tokens = 3}, tokens).get_vocabulary(), ElementsAre("[UNK]", "d", "z"));
}

TEST(StringLookup, SpreadsUnknownTokensByTheirHash) {
  const Strings tokens({"a", "c", "d", "m", "z", "b"}, {2, 3});
  EXPECT_THAT(word_ids(StringLookup({.num_oov_indices = 2, .vocabulary = kWords})(tokens)),
              ElementsAre(2, 4, 5, 0, 1, 3));
  const StringLookup salted({.num_oov_indices = 3, .vocabulary = Words{"x"}, .salt = HashSalt(133, 137)});
  EXPECT_THAT(word_ids(salted(Strings(Words{"A", "B", "C", "D", "E", "x"}))), ElementsAre(1, 2, 1, 0, 2, 3));
}

TEST(StringLookup, EncodesEachTokenOrEachSample) {
  const Tensor one_hot =
      StringLookup({.vocabulary = kWords, .output_mode = OutputMode::one_hot})(Strings(Words{"a", "d", "z"}));
  EXPECT_EQ(one_hot.sizes(), (std::vector<int64_t>{3, 5}));
  EXPECT_THAT(word_ids(one_hot), ElementsAre(0, 1, 0, 0, 0, /**/ 0, 0, 0, 0, 1, /**/ 1, 0, 0, 0, 0));
  EXPECT_THAT(word_ids(StringLookup({.vocabulary = kWords, .output_mode = OutputMode::multi_hot})(kTokens)),
              ElementsAre(0, 1, 0, 1, 1, /**/ 1, 0, 1, 0, 1));
  EXPECT_THAT(word_ids(StringLookup({.vocabulary = kWords, .output_mode = OutputMode::count})(kTokens)),
              ElementsAre(0, 1, 0, 1, 2, /**/ 2, 0, 1, 0, 1));
}

TEST(StringLookup, WeighsCountsByGivenWeights) {
  StringLookup layer({.output_mode = OutputMode::tf_idf});
  layer.set_vocabulary(kWords, {0.25, 0.75, 0.6, 0.4});
  EXPECT_THAT(values<float>(layer(kTokens)), ElementsAre(0, FloatEq(0.25), 0, FloatEq(0.6), FloatEq(0.8), FloatEq(1), 0,
                                                         FloatEq(0.75), 0, FloatEq(0.4)));
  layer.set_vocabulary({"[UNK]", "a", "b", "c", "d"}, {0.9, 0.25, 0.75, 0.6, 0.4});
  EXPECT_FLOAT_EQ(layer(kTokens)[1][0].item<float>(), 1.8);
}

TEST(StringLookup, InvertsWhatItsTwinGave) {
  const StringLookup layer({.vocabulary = kWords, .invert = true});
  EXPECT_EQ(layer(at::tensor({1, 3, 4, 4, 0, 2}).reshape({2, 3})), Strings({"a", "c", "d", "d", "[UNK]", "b"}, {2, 3}));
  const StringLookup masked({.mask_token = "", .vocabulary = kWords, .invert = true});
  EXPECT_EQ(masked(at::tensor({0, 1, 2, 6, -1})), Strings(Words{"", "[UNK]", "a", "[UNK]", "[UNK]"}));
}

TEST(StringLookup, AMaskIsId0AndCountsInNoOtherMode) {
  const Strings tokens(Words{"", "a", "q"});
  const StringLookup layer({.mask_token = "", .vocabulary = kWords});
  EXPECT_THAT(layer.get_vocabulary(), ElementsAre("", "[UNK]", "a", "b", "c", "d"));
  EXPECT_THAT(word_ids(layer(tokens)), ElementsAre(0, 2, 1));
  const StringLookup counts({.mask_token = "", .vocabulary = kWords, .output_mode = OutputMode::count});
  EXPECT_THAT(word_ids(counts(tokens)), ElementsAre(1, 1, 0, 0, 0));
  const StringLookup one_hot({.mask_token = "", .vocabulary = Words{"a"}, .output_mode = OutputMode::one_hot});
  EXPECT_THAT(word_ids(one_hot(tokens)), ElementsAre(0, 0, /**/ 0, 1, /**/ 1, 0));
}

TEST(StringLookup, AdaptingBatchByBatchIsAdaptingToAll) {
  for (const OutputMode mode : {OutputMode::int_, OutputMode::tf_idf}) {
    StringLookup layer({.output_mode = mode});
    layer.adapt(std::vector{kTokens.rows(0, 1), kTokens.rows(1, 1)});
    const StringLookup whole = adapted_words({.output_mode = mode}, kTokens);
    EXPECT_EQ(layer.get_vocabulary(), whole.get_vocabulary());
    EXPECT_EQ(layer.idf_weights(), whole.idf_weights());
  }
}

TEST(StringLookup, PadsItsColumnsToMaxTokens) {
  StringLookup layer({.max_tokens = 7, .output_mode = OutputMode::tf_idf, .pad_to_max_tokens = true});
  layer.set_vocabulary({"a"}, {0.5});
  EXPECT_THAT(values<float>(layer(Strings(Words{"a", "a"}))), ElementsAre(0, 1, 0, 0, 0, 0, 0));
}

TEST(StringLookup, SavesAndLoadsItsVocabulary) {
  const TemporaryFolder folder;
  StringLookup({.vocabulary = kWords}).save_vocabulary(folder.path() / "words");
  StringLookup loaded;
  loaded.load_vocabulary(folder.path() / "words");
  EXPECT_THAT(loaded.get_vocabulary(false), ElementsAre("a", "b", "c", "d"));
}

TEST(StringLookup, RefusesUnknownTokensWithoutAnIdForThem) {
  const StringLookup layer({.num_oov_indices = 0, .vocabulary = kWords, .name = "words"});
  EXPECT_THAT(word_ids(layer(Strings(Words{"a", "d"}))), ElementsAre(0, 3));
  EXPECT_THAT(error_of([&] { layer("z"); }), StartsWith(R"(invalid_argument: words: the token "z" is not in the voc)"));
}

TEST(StringLookup, RefusesWhatDoesNotFit) {
  const auto refused = [](const StringLookupOptions& options) {
    return error_of([&] { StringLookup layer(options); });
  };
  EXPECT_THAT(refused({.max_tokens = 1}), StartsWith("invalid_argument: string_lookup: max_tokens 1"));
  EXPECT_THAT(refused({.max_tokens = 2, .num_oov_indices = 3}), HasSubstr("the special tokens alone are 3"));
  EXPECT_THAT(refused({.num_oov_indices = -1}), HasSubstr("must not be negative"));
  EXPECT_THAT(refused({.pad_to_max_tokens = true}), HasSubstr("pad_to_max_tokens needs max_tokens"));
  EXPECT_THAT(refused({.invert = true, .output_mode = OutputMode::count}), HasSubstr("invert gives tokens"));
  EXPECT_THAT(refused({.vocabulary = Words{"a", "[UNK]"}, .invert = true}), HasSubstr(R"(special token "[UNK]")"));
  EXPECT_THAT(refused({.idf_weights = {1}, .output_mode = OutputMode::tf_idf}), HasSubstr("without a vocabulary"));
  EXPECT_THAT(error_of([] { StringLookup()("a"); }), StartsWith("failed_precondition: string_lookup: there is no"));
  StringLookup given({.vocabulary = kWords});
  EXPECT_THAT(error_of([&] { given.adapt(kTokens); }), HasSubstr("would replace the vocabulary"));
  EXPECT_THAT(error_of([&] { given(at::zeros({1}, at::kLong)); }), HasSubstr("with invert = true only"));
  const StringLookup inverse({.vocabulary = kWords, .invert = true});
  EXPECT_THAT(error_of([&] { inverse("a"); }), HasSubstr("only ids are looked up"));
  EXPECT_THAT(error_of([&] { inverse(at::zeros({1})); }), HasSubstr("the input has dtype Float; an integer dtype"));
}

}  // namespace
}  // namespace tutti::keras::layers
