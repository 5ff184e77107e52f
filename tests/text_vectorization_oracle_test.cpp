// What Keras's TextVectorization returned (tests/oracle/text_vectorization.json), case by case.
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <map>

#include "tests/support/oracle_cases.h"
#include "tests/support/real_data.h"
#include "tutti/files/archive.h"
#include "tutti/keras/layers/preprocessing/text_vectorization.h"

namespace tutti::keras::layers {
namespace {

using oracle::Json;

// A JSON string, or {"hex": …} for bytes that are not UTF-8.
std::string bytes_of(const Json& json) {
  if (json.is_string()) return json;
  const std::string hex = json.at("hex");
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::vector<std::string> texts_of(const Json& json) {
  std::vector<std::string> texts;
  for (const Json& text : json) texts.push_back(bytes_of(text));
  return texts;
}

// Nested lists of strings.
Strings strings_of(const Json& json) {
  if (!json.is_array()) return bytes_of(json);
  std::vector<Strings> rows;
  for (const Json& row : json) rows.push_back(strings_of(row));
  return rows.empty() ? Strings(std::vector<std::string>{}) : stack(rows);
}

// Lower case, "<br />" as a space, no punctuation.
std::string custom_br(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  for (size_t at; (at = result.find("<br />")) != std::string::npos;) result.replace(at, 6, " ");
  std::erase_if(result, [](unsigned char c) { return c < 128 && std::ispunct(c); });
  return result;
}

std::variant<Standardize, StandardizeFunction> standardize_of(const Json& json) {
  if (json.is_null()) return Standardize::none;
  if (json == "custom_br") return StandardizeFunction(custom_br);
  const std::map<std::string, Standardize> names{
      {"lower", Standardize::lower},
      {"strip_punctuation", Standardize::strip_punctuation},
      {"lower_and_strip_punctuation", Standardize::lower_and_strip_punctuation}};
  return names.at(json);
}

Split split_of(const Json& json) {
  if (json.is_null()) return Split::none;
  return std::map<std::string, Split>{{"whitespace", Split::whitespace}, {"character", Split::character}}.at(json);
}

OutputMode output_mode_of(const Json& json) {
  const std::map<std::string, OutputMode> names{{"int", OutputMode::int_},
                                                {"multi_hot", OutputMode::multi_hot},
                                                {"count", OutputMode::count},
                                                {"tf_idf", OutputMode::tf_idf}};
  return names.at(json);
}

Ngrams ngrams_of(const Json& json) {
  if (json.is_null()) return {};
  return json.is_array() ? Ngrams(json.get<std::vector<int64_t>>()) : Ngrams(json.get<int64_t>());
}

std::optional<int64_t> optional_integer(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<int64_t>());
}

// "ragged" is a function of ours.
TextVectorizationOptions options_of(const Json& config) {
  TextVectorizationOptions options;
  for (const auto& [name, value] : config.items()) {
    if (name == "max_tokens")
      options.max_tokens = optional_integer(value);
    else if (name == "standardize")
      options.standardize = standardize_of(value);
    else if (name == "split")
      options.split = split_of(value);
    else if (name == "ngrams")
      options.ngrams = ngrams_of(value);
    else if (name == "output_mode")
      options.output_mode = output_mode_of(value);
    else if (name == "output_sequence_length")
      options.output_sequence_length = optional_integer(value);
    else if (name == "pad_to_max_tokens")
      options.pad_to_max_tokens = value;
    else if (name == "vocabulary")
      options.vocabulary = texts_of(value);
    else if (name == "idf_weights")
      options.idf_weights = value.get<std::vector<float>>();
    else if (name != "ragged")
      throw std::runtime_error("the option " + name + " is not read yet");
  }
  return options;
}

std::vector<Strings> batches_of(const Strings& texts, int64_t size) {
  std::vector<Strings> batches;
  for (int64_t first = 0; first < texts.size(); first += size)
    batches.push_back(texts.rows(first, std::min(size, texts.size() - first)));
  return batches;
}

bool same_rows(const std::vector<Tensor>& rows, const Json& recorded) {
  return std::ranges::equal(rows, recorded.at("rows"), oracle::equals);
}

// Keras's weights have a zero for each column that pad_to_max_tokens adds.
bool same_weights(std::vector<float> weights, const Json& recorded) {
  weights.resize(std::max(weights.size(), recorded.at("data").size()));
  return oracle::equals(at::from_blob(weights.data(), {static_cast<int64_t>(weights.size())}), recorded);
}

bool vectorize(const Json& test) {
  const Json& config = test.at("config");
  TextVectorization layer(options_of(config));
  if (!test.at("corpus").is_null()) layer.adapt(batches_of(strings_of(test["corpus"]), test.value("adapt_batch", 8)));
  const Strings inputs = strings_of(test.at("inputs"));
  if (config.value("ragged", false)) {
    const std::vector<Tensor> rows = layer.ragged(inputs);
    return !test.contains("error") && same_rows(rows, test.at("expected").at("output"));
  }
  const Tensor output = layer(inputs);
  if (test.contains("error")) return false;
  for (const auto& [name, recorded] : test.at("expected").items()) {
    const bool holds = name == "vocabulary"        ? layer.get_vocabulary() == texts_of(recorded)
                       : name == "vocabulary_size" ? layer.vocabulary_size() == recorded
                       : name == "output"          ? oracle::equals(output, recorded)
                                          : name == "idf_weights" && same_weights(layer.idf_weights(), recorded);
    if (!holds) return false;
  }
  return true;
}

// A text that is not split is its own token: its id leads back to what became of it.
bool standardize(const Json& test) {
  const Strings inputs(texts_of(test.at("inputs")));
  TextVectorization layer({.standardize = standardize_of(test.at("standardize")), .split = Split::none});
  layer.adapt(inputs);
  const std::vector<std::string> vocabulary = layer.get_vocabulary();
  const Tensor ids = layer(inputs);
  std::vector<std::string> standardized;
  for (int64_t i = 0; i < inputs.size(); ++i)
    standardized.push_back(vocabulary.at(static_cast<size_t>(ids[i].item<int64_t>())));
  return standardized == texts_of(test.at("expected").at("data"));
}

bool holds(const Json& test) {
  const std::string kind = test.at("kind");
  if (kind == "standardize") return standardize(test);
  if (kind == "vectorize") return vectorize(test);
  if (kind == "vectorize_unadapted") return TextVectorization()("a text").defined();
  ADD_FAILURE() << "unknown kind " << kind;
  return false;
}

TEST(TextVectorizationOracle, EveryCaseHolds) {
  oracle::run_cases("text_vectorization.json", [](const Json& test) { return holds(test); }, {"reviews"});
}

// [column, value] of what is not zero in a row.
bool same_nonzero(const Tensor& row, const Json& recorded) {
  const Tensor columns = row.nonzero().flatten();
  if (columns.numel() != static_cast<int64_t>(recorded.size())) return false;
  for (int64_t i = 0; i < columns.numel(); ++i) {
    const Json& entry = recorded[static_cast<size_t>(i)];
    const float value = entry[1];
    if (columns[i].item<int64_t>() != entry[0] ||
        std::abs(row[columns[i].item<int64_t>()].item<float>() - value) > 1e-5F + 1e-5F * std::abs(value))
      return false;
  }
  return true;
}

using Reviews = std::map<std::string, std::string>;  // by path: "aclImdb/train/pos/1_7.txt"

Reviews read_reviews(const std::filesystem::path& source, const std::string& folder) {
  Reviews reviews;
  if (std::filesystem::is_directory(source)) {
    for (const auto& entry : std::filesystem::directory_iterator(source.parent_path() / folder)) {
      std::ifstream stream(entry.path(), std::ios::binary);
      reviews[folder + entry.path().filename().string()] = {std::istreambuf_iterator<char>(stream), {}};
    }
  } else {
    files::read_archive(
        source, [&](const std::string& path) { return path.starts_with(folder); },
        [&](const std::string& path, std::string bytes) { reviews[path] = std::move(bytes); });
  }
  return reviews;
}

void expect_reviews(const Json& test, const Reviews& reviews) {
  std::vector<std::string> texts;
  size_t num_bytes = 0;
  for (const Json& file : test.at("files")) {
    texts.push_back(reviews.at(test.at("folder").get<std::string>() + file.get<std::string>()));
    num_bytes += texts.back().size();
  }
  ASSERT_EQ(num_bytes, test.at("corpus_bytes")) << "other reviews than those of the recording";
  const Strings corpus(std::move(texts));
  TextVectorization layer(options_of(test.at("config")));
  layer.adapt(batches_of(corpus, test.at("adapt_batch")));

  const Json& expected = test.at("expected");
  EXPECT_EQ(layer.vocabulary_size(), expected.at("vocabulary_size"));
  auto vocabulary = layer.get_vocabulary();
  vocabulary.resize(expected.at("vocabulary_first_200").size());
  EXPECT_EQ(vocabulary, texts_of(expected.at("vocabulary_first_200")));
  auto weights = layer.idf_weights();
  weights.resize(vocabulary.size());
  EXPECT_TRUE(same_weights(weights, expected.at("idf_first_200")));

  const Json& rows = expected.at("rows_nonzero");
  const Tensor output = layer(corpus);
  EXPECT_EQ(output.size(1), expected.at("row_length"));
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(same_nonzero(output[static_cast<int64_t>(i)], rows[i])) << i;
}

TEST(TextVectorizationOnRealData, TheReviewsGiveTheRecordedVocabularyAndRows) {
  for (const Json& test : oracle::cases("text_vectorization.json")) {
    if (test.at("kind") != "reviews") continue;
    const auto source = imdb_source();
    if (!source) GTEST_SKIP() << "needs the IMDB reviews: TUTTI_DATA_DIR names no folder that has imdb/";
    const Reviews reviews = read_reviews(*source, test.at("folder"));
    std::cout << "text_vectorization.json: " << test.at("name") << " run on " << reviews.size() << " reviews\n";
    expect_reviews(test, reviews);
  }
}

}  // namespace
}  // namespace tutti::keras::layers
