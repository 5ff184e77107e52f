#include "tutti/export/steps.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>
#include <type_traits>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/data/parse_spec.h"
#include "tutti/keras/layers/preprocessing/category_ids.h"
#include "tutti/keras/layers/preprocessing/text_vectorization.h"

namespace tutti::saved_model {
namespace {

using keras::HashSalt;
using keras::OutputMode;
using keras::Split;
using keras::Standardize;
using keras::layers::CategoryIdsOptions;
using keras::layers::CrossedIdsOptions;
using keras::layers::HashingOptions;
using keras::layers::IntegerLookupOptions;
using keras::layers::OovMethod;
using keras::layers::ParseFeatureOptions;
using keras::layers::StringLookupOptions;
using keras::layers::TensorOrText;
using keras::layers::TextVectorizationOptions;

// By their enumerators' order.
constexpr std::array<std::string_view, 5> kModes = {"int", "one_hot", "multi_hot", "count", "tf_idf"};
constexpr std::array<std::string_view, 4> kStandardize = {"none", "lower", "strip_punctuation",
                                                          "lower_and_strip_punctuation"};
constexpr std::array<std::string_view, 3> kSplit = {"none", "whitespace", "character"};
constexpr std::array<std::string_view, 2> kOovMethods = {"floormod", "farmhash"};
constexpr std::array<std::string_view, 3> kCategoryKinds = {"vocabulary", "identity", "hash"};
constexpr std::array<std::string_view, 3> kCrossedKeys = {"ids", "feature", "feature_with_lengths"};
// By FeatureSpec's order.
constexpr std::array<std::string_view, 3> kFeatureTypes = {"float32", "int64", "text"};
// By PreprocessingOptions' order.
constexpr std::array<const char*, 7> kNames = {"text_vectorization", "string_lookup", "integer_lookup", "hashing",
                                               "parse_example",      "category_ids",  "crossed_ids"};
constexpr int64_t kVersion = 1;
constexpr int64_t kMaxFeatureValues = int64_t{1} << 30;  // of an Example, which has 2 GB at most

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorCode::unimplemented, str("saved_model: ", what)); }

// --- writing ---------------------------------------------------------------------------------------------------------

class ConfigWriter {
 public:
  template <class T>
  void add(std::string_view key, const T& value) {
    text_ += str(text_.size() > 1 ? ", \"" : "\"", key, "\": ", json(value));
  }
  template <class T>
  void add(std::string_view key, const std::optional<T>& value) {
    if (value) add(key, *value);
  }
  void add_text(std::string_view key, const std::string& value) { add(key, json_text(value), 0); }
  template <class Names, class Enum>
  void add_name(std::string_view key, const Names& names, Enum value) {
    add_text(key, std::string(names[static_cast<size_t>(value)]));
  }
  std::string text() const { return text_ + '}'; }

 private:
  void add(std::string_view key, const std::string& json_value, int) {
    text_ += str(text_.size() > 1 ? ", \"" : "\"", key, "\": ", json_value);
  }
  static std::string json(int64_t value) { return std::to_string(value); }
  static std::string json(bool value) { return value ? "1" : "0"; }
  static std::string json(float value) {
    if (!std::isfinite(value)) refuse(str("a step has the number ", value, ", which a description cannot hold"));
    return json_number(value);
  }
  static std::string json(const std::string& value) {
    if (!is_utf8(value)) refuse("a step has text that is not UTF-8, which a description cannot hold");
    return json_text(value);
  }
  static std::string json(const HashSalt& salt) {
    return json(std::vector{static_cast<int64_t>(salt.first), static_cast<int64_t>(salt.second)});
  }
  template <class T>
  static std::string json(const std::vector<T>& values) {
    std::string text = "[";
    for (const T& value : values) text += str(text.size() > 1 ? ", " : "", json(value));
    return text + ']';
  }

  std::string text_ = "{";
};

std::string lines_of(const std::vector<std::string>& tokens) {
  std::string lines;
  for (const std::string& token : tokens) {
    if (token.find('\n') != std::string::npos)
      refuse(str("a token of a vocabulary has a line feed in it, and a file of one token a line cannot keep it"));
    lines += token + '\n';
  }
  return lines;
}

std::string lines_of(const std::vector<int64_t>& tokens) {
  std::string lines;
  for (const int64_t token : tokens) lines += std::to_string(token) + '\n';
  return lines;
}

template <class Options>
void add_vocabulary(ConfigWriter& config, const Options& options, Assets& assets) {
  config.add("max_tokens", options.max_tokens);
  config.add_text("vocabulary", assets.add("vocabulary", lines_of(*options.vocabulary)));
  if (!options.idf_weights.empty()) config.add("idf_weights", options.idf_weights);
  config.add_name("output_mode", kModes, options.output_mode);
  config.add("pad_to_max_tokens", options.pad_to_max_tokens);
}

void write(ConfigWriter& config, const TextVectorizationOptions& options, Assets& assets) {
  const auto* const standardize = std::get_if<Standardize>(&options.standardize);
  const auto* const split = std::get_if<Split>(&options.split);
  if (!standardize || !split)
    refuse(
        "a TextVectorization has a function of its program's own as `standardize` or `split`, which no other "
        "program has; use one of the enumeration, or leave the step out of the signature");
  add_vocabulary(config, options, assets);
  config.add_name("standardize", kStandardize, *standardize);
  config.add_name("split", kSplit, *split);
  config.add("ngrams", options.ngrams.widths());
  config.add("output_sequence_length", options.output_sequence_length);
}

void write(ConfigWriter& config, const StringLookupOptions& options, Assets& assets) {
  add_vocabulary(config, options, assets);
  config.add("num_oov_indices", options.num_oov_indices);
  if (options.mask_token) config.add_text("mask_token", *options.mask_token);
  config.add_text("oov_token", options.oov_token);
  config.add("invert", options.invert);
  config.add("salt", options.salt);
}

void write(ConfigWriter& config, const IntegerLookupOptions& options, Assets& assets) {
  add_vocabulary(config, options, assets);
  config.add("num_oov_indices", options.num_oov_indices);
  config.add("mask_token", options.mask_token);
  config.add("oov_token", options.oov_token);
  config.add("invert", options.invert);
  config.add_name("oov_method", kOovMethods, options.oov_method);
  config.add("salt", options.salt);
}

void write(ConfigWriter& config, const HashingOptions& options, Assets&) {
  config.add("num_bins", options.num_bins);
  if (const auto* const text = std::get_if<std::string>(&options.mask_value)) config.add_text("mask_text", *text);
  if (const auto* const number = std::get_if<int64_t>(&options.mask_value)) config.add("mask_integer", *number);
  config.add("salt", options.salt);
  config.add_name("output_mode", kModes, options.output_mode);
}

template <class T>
void write_fill(ConfigWriter& config, const std::vector<T>& fill) {
  config.add_name("type", kFeatureTypes, std::is_same_v<T, float> ? 0 : std::is_same_v<T, int64_t> ? 1 : 2);
  if (!fill.empty())
    config.add(std::is_same_v<T, float> ? "floats" : std::is_same_v<T, int64_t> ? "integers" : "texts", fill);
}

template <class T>
void write_feature(ConfigWriter& config, const data::FixedLenFeature<T>& feature) {
  config.add("shape", feature.shape);
  write_fill(config, feature.default_value);
}

template <class T>
void write_feature(ConfigWriter& config, const data::VarLenFeature<T>& feature) {
  config.add("variable", true);
  write_fill(config, std::vector<T>{feature.padding_value});
}

void write(ConfigWriter& config, const ParseFeatureOptions& options, Assets&) {
  config.add("feature", options.key);
  std::visit([&](const auto& feature) { write_feature(config, feature); }, options.feature);
  if (options.lengths) config.add("lengths", true);
}

void write(ConfigWriter& config, const CategoryIdsOptions& options, Assets& assets) {
  config.add("column", options.column);
  config.add("feature", options.feature);
  config.add("is_text", options.is_text);
  config.add_name("kind", kCategoryKinds, options.kind);
  if (options.vocabulary) config.add_text("vocabulary", assets.add("vocabulary", lines_of(*options.vocabulary)));
  config.add("num_buckets", options.num_buckets);
  config.add("default_value", options.default_value);
  if (options.has_lengths) config.add("lengths", true);
  config.add("refused_from", options.refused_from);
}

void write(ConfigWriter& config, const CrossedIdsOptions& options, Assets&) {
  config.add("column", options.column);
  config.add("hash_bucket_size", options.hash_bucket_size);
  config.add("hash_key", static_cast<int64_t>(options.hash_key));
  std::vector<std::string> keys;
  for (const auto key : options.keys) keys.emplace_back(kCrossedKeys[static_cast<size_t>(key)]);
  config.add("keys", keys);
}

// --- reading ---------------------------------------------------------------------------------------------------------

class ConfigReader {
 public:
  ConfigReader(std::string_view config, std::string_view source,
               const std::function<std::string(const std::string& file)>& asset)
      : json_(config, source), asset_(asset) {}

  void read(TextVectorizationOptions& options);
  void read(StringLookupOptions& options);
  void read(IntegerLookupOptions& options);
  void read(HashingOptions& options);
  void read(ParseFeatureOptions& options);
  void read(CategoryIdsOptions& options);
  void read(CrossedIdsOptions& options);

 private:
  // A feature as it is written, whatever its type is.
  struct Feature {
    size_t type = 0;
    std::optional<std::vector<int64_t>> shape = {};
    bool is_variable = false;
    std::tuple<std::vector<float>, std::vector<int64_t>, std::vector<std::string>> fill = {};
  };
  template <class T>
  data::FeatureSpec feature_of(const std::string& key, const Feature& written) const;
  template <class Names, class Enum>
  void name(const Names& names, Enum& value) {
    const std::string text = json_.text();
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) json_.fail(str("no such mode: \"", text, '"'), ErrorCode::unimplemented);
    value = static_cast<Enum>(found - names.begin());
  }
  bool flag() {
    const int64_t value = json_.integer();
    if (value != 0 && value != 1) json_.fail("a flag is 0 or 1");
    return value == 1;
  }
  std::vector<float> weights() {
    std::vector<float> weights;
    json_.array([&] { weights.push_back(static_cast<float>(json_.number())); });
    return weights;
  }
  HashSalt salt() {
    std::vector<uint64_t> halves;
    json_.array([&] { halves.push_back(static_cast<uint64_t>(json_.integer())); });
    if (halves.size() != 2) json_.fail("a salt has two halves");
    return {halves[0], halves[1]};
  }
  std::vector<std::string> lines() {
    const std::string text = asset_(json_.text());
    std::vector<std::string> lines;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      if (end == std::string::npos) json_.fail("the last line of the vocabulary has no end");
      lines.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return lines;
  }
  std::vector<int64_t> numbers() {
    std::vector<int64_t> numbers;
    for (const std::string& line : lines()) {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
      if (error != std::errc() || end != line.data() + line.size()) json_.fail("the vocabulary is not of integers");
      numbers.push_back(number);
    }
    return numbers;
  }

  JsonReader json_;
  const std::function<std::string(const std::string& file)>& asset_;
};

void ConfigReader::read(TextVectorizationOptions& options) {
  std::vector<int64_t> widths;
  auto standardize = Standardize::none;
  auto split = Split::none;
  json_.object("text_vectorization",
               {{"max_tokens", [&] { options.max_tokens = json_.integer(); }},
                {"vocabulary", [&] { options.vocabulary = lines(); }},
                {"idf_weights", [&] { options.idf_weights = weights(); }},
                {"output_mode", [&] { name(kModes, options.output_mode); }},
                {"pad_to_max_tokens", [&] { options.pad_to_max_tokens = flag(); }},
                {"standardize", [&] { name(kStandardize, standardize); }},
                {"split", [&] { name(kSplit, split); }},
                {"ngrams", [&] { json_.array([&] { widths.push_back(json_.integer()); }); }},
                {"output_sequence_length", [&] { options.output_sequence_length = json_.integer(); }}});
  json_.end();
  options.standardize = standardize;
  options.split = split;
  options.ngrams = keras::Ngrams(std::move(widths));
}

void ConfigReader::read(StringLookupOptions& options) {
  json_.object("string_lookup", {{"max_tokens", [&] { options.max_tokens = json_.integer(); }},
                                 {"vocabulary", [&] { options.vocabulary = lines(); }},
                                 {"idf_weights", [&] { options.idf_weights = weights(); }},
                                 {"output_mode", [&] { name(kModes, options.output_mode); }},
                                 {"pad_to_max_tokens", [&] { options.pad_to_max_tokens = flag(); }},
                                 {"num_oov_indices", [&] { options.num_oov_indices = json_.integer(); }},
                                 {"mask_token", [&] { options.mask_token = json_.text(); }},
                                 {"oov_token", [&] { options.oov_token = json_.text(); }},
                                 {"invert", [&] { options.invert = flag(); }},
                                 {"salt", [&] { options.salt = salt(); }}});
  json_.end();
}

void ConfigReader::read(IntegerLookupOptions& options) {
  json_.object("integer_lookup", {{"max_tokens", [&] { options.max_tokens = json_.integer(); }},
                                  {"vocabulary", [&] { options.vocabulary = numbers(); }},
                                  {"idf_weights", [&] { options.idf_weights = weights(); }},
                                  {"output_mode", [&] { name(kModes, options.output_mode); }},
                                  {"pad_to_max_tokens", [&] { options.pad_to_max_tokens = flag(); }},
                                  {"num_oov_indices", [&] { options.num_oov_indices = json_.integer(); }},
                                  {"mask_token", [&] { options.mask_token = json_.integer(); }},
                                  {"oov_token", [&] { options.oov_token = json_.integer(); }},
                                  {"invert", [&] { options.invert = flag(); }},
                                  {"oov_method", [&] { name(kOovMethods, options.oov_method); }},
                                  {"salt", [&] { options.salt = salt(); }}});
  json_.end();
}

void ConfigReader::read(HashingOptions& options) {
  json_.object("hashing", {{"num_bins", [&] { options.num_bins = json_.integer(); }},
                           {"mask_text", [&] { options.mask_value = json_.text(); }},
                           {"mask_integer", [&] { options.mask_value = json_.integer(); }},
                           {"salt", [&] { options.salt = salt(); }},
                           {"output_mode", [&] { name(kModes, options.output_mode); }}});
  json_.end();
}

template <class T>
data::FeatureSpec ConfigReader::feature_of(const std::string& key, const Feature& written) const {
  const auto& fill = std::get<std::vector<T>>(written.fill);
  const size_t others = std::get<0>(written.fill).size() + std::get<1>(written.fill).size() +
                        std::get<2>(written.fill).size() - fill.size();
  if (others > 0) json_.fail("a feature is filled with values of another type");
  if (written.is_variable == written.shape.has_value()) json_.fail("a feature has a shape, or is variable");
  if (written.is_variable) {
    if (fill.size() != 1) json_.fail("a variable feature is filled with one value");
    return data::VarLenFeature<T>{key, fill[0]};
  }
  int64_t count = 1;
  for (const int64_t size : *written.shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count) || count > kMaxFeatureValues)
      json_.fail(str("a feature has no such shape: ", str_list(*written.shape)));
  if (fill.size() > 1 && static_cast<int64_t>(fill.size()) != count)
    json_.fail(str("a feature of ", count, " values has ", fill.size(), " defaults"));
  return data::FixedLenFeature<T>{key, *written.shape, fill};
}

void ConfigReader::read(ParseFeatureOptions& options) {
  Feature written;
  auto& [floats, integers, texts] = written.fill;
  json_.object(
      "parse_example",
      {{"feature", [&] { options.key = json_.text(); }},
       {"shape", [&] { json_.array([&, &shape = written.shape.emplace()] { shape.push_back(json_.integer()); }); }},
       {"variable", [&] { written.is_variable = flag(); }},
       {"type", [&] { name(kFeatureTypes, written.type); }},
       {"floats", [&] { floats = weights(); }},
       {"integers", [&] { json_.array([&] { integers.push_back(json_.integer()); }); }},
       {"texts", [&] { json_.array([&] { texts.push_back(json_.text()); }); }},
       {"lengths", [&] { options.lengths = flag(); }}});
  json_.end();
  if (options.lengths && !written.is_variable) json_.fail("lengths are of a variable feature");
  options.feature = written.type == 0   ? feature_of<float>(options.key, written)
                    : written.type == 1 ? feature_of<int64_t>(options.key, written)
                                        : feature_of<std::string>(options.key, written);
}

void ConfigReader::read(CategoryIdsOptions& options) {
  const auto vocabulary = [&] { options.vocabulary = std::make_shared<const std::vector<std::string>>(lines()); };
  json_.object("category_ids", {{"column", [&] { options.column = json_.text(); }},
                                {"feature", [&] { options.feature = json_.text(); }},
                                {"is_text", [&] { options.is_text = flag(); }},
                                {"kind", [&] { name(kCategoryKinds, options.kind); }},
                                {"vocabulary", vocabulary},
                                {"num_buckets", [&] { options.num_buckets = json_.integer(); }},
                                {"default_value", [&] { options.default_value = json_.integer(); }},
                                {"lengths", [&] { options.has_lengths = flag(); }},
                                {"refused_from", [&] { options.refused_from = json_.integer(); }}});
  json_.end();
}

void ConfigReader::read(CrossedIdsOptions& options) {
  json_.object("crossed_ids",
               {{"column", [&] { options.column = json_.text(); }},
                {"hash_bucket_size", [&] { options.hash_bucket_size = json_.integer(); }},
                {"hash_key", [&] { options.hash_key = static_cast<uint64_t>(json_.integer()); }},
                {"keys", [&] { json_.array([&] { name(kCrossedKeys, options.keys.emplace_back()); }); }}});
  json_.end();
}

template <size_t i = 0>
PreprocessingOptions options_of(size_t index) {
  if constexpr (i < std::variant_size_v<PreprocessingOptions>)
    return index == i ? PreprocessingOptions(std::in_place_index<i>) : options_of<i + 1>(index);
  else
    throw std::logic_error("no such step");
}

Value parsed(const ParseFeatureOptions& options, const Strings& examples) {
  const data::Columns columns = data::parse_example(examples, {{options.key, options.feature}});
  if (options.lengths) return columns.lengths.at(options.key);
  const data::Column column = columns.at(options.key);
  return column.is_text() ? Value(column.strings()) : Value(column.tensor());
}

template <class Ids>
std::function<Value(const std::vector<Value>& inputs)> ids_step(Ids ids) {
  return [ids = std::move(ids)](const std::vector<Value>& inputs) -> Value {
    std::vector<TensorOrText> given;
    for (const Value& input : inputs)
      if (input.is_text())
        given.emplace_back(input.text());
      else
        given.emplace_back(input.tensor());
    return ids(given);
  };
}

// Of a layer that takes one input.
template <class Options>
std::function<Value(const Value& input)> step_of_one(const Options& options) {
  if constexpr (std::is_same_v<Options, TextVectorizationOptions>) {
    return [layer = keras::layers::TextVectorization(options)](const Value& input) { return layer(input.text()); };
  } else if constexpr (std::is_same_v<Options, StringLookupOptions>) {
    return [layer = keras::layers::StringLookup(options)](const Value& input) -> Value {
      if (input.is_text()) return layer(input.text());
      return layer(input.tensor());
    };
  } else if constexpr (std::is_same_v<Options, IntegerLookupOptions>) {
    return [layer = keras::layers::IntegerLookup(options)](const Value& input) { return layer(input.tensor()); };
  } else if constexpr (std::is_same_v<Options, ParseFeatureOptions>) {
    return [options](const Value& input) { return parsed(options, input.text()); };
  } else {
    return [layer = keras::layers::Hashing(options)](const Value& input) -> Value {
      return input.is_text() ? layer(input.text()) : layer(input.tensor());
    };
  }
}

}  // namespace

std::string step_name(const PreprocessingOptions& layer) { return kNames[layer.index()]; }
int64_t step_version(const PreprocessingOptions&) { return kVersion; }

std::string Assets::add(const std::string& stem, std::string contents) {
  for (const auto& [name, text] : files_)
    if (text == contents) return name;
  const std::string name = str("assets/", stem, '_', files_.size(), ".txt");
  files_.emplace(name, std::move(contents));
  return name;
}

std::string step_config(const PreprocessingOptions& layer, Assets& assets) {
  ConfigWriter config;
  std::visit([&](const auto& options) { write(config, options, assets); }, layer);
  return config.text();
}

PreprocessingOptions parse_step(const std::string& name, int64_t version, std::string_view config,
                                const std::function<std::string(const std::string& file)>& asset,
                                std::string_view source) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end() || version != kVersion)
    throw Error(ErrorCode::unimplemented, str(source, ": has a step '", name, "' of version ", version,
                                              ", which this library does not know; a newer one can load it"));
  PreprocessingOptions layer = options_of(static_cast<size_t>(found - kNames.begin()));
  ConfigReader reader(config, source, asset);
  std::visit([&](auto& options) { reader.read(options); }, layer);
  return layer;
}

size_t num_inputs_of(const PreprocessingOptions& layer) {
  if (const auto* const ids = std::get_if<CategoryIdsOptions>(&layer)) return ids->has_lengths ? 2 : 1;
  if (const auto* const ids = std::get_if<CrossedIdsOptions>(&layer))
    return keras::layers::CrossedIds(*ids).num_inputs();
  return 1;
}

std::function<Value(const std::vector<Value>& inputs)> make_step(const PreprocessingOptions& layer) {
  return std::visit(
      [](const auto& options) -> std::function<Value(const std::vector<Value>& inputs)> {
        using Options = std::decay_t<decltype(options)>;
        if constexpr (std::is_same_v<Options, CategoryIdsOptions>)
          return ids_step(keras::layers::CategoryIds(options));
        else if constexpr (std::is_same_v<Options, CrossedIdsOptions>)
          return ids_step(keras::layers::CrossedIds(options));
        else
          return [step = step_of_one(options)](const std::vector<Value>& inputs) { return step(inputs[0]); };
      },
      layer);
}

bool has_free_length(const PreprocessingOptions& layer) {
  if (const auto* const parse = std::get_if<ParseFeatureOptions>(&layer))
    return !parse->lengths && std::visit(
                                  [](const auto& feature) {
                                    return !requires { feature.shape; };
                                  },
                                  parse->feature);
  if (std::holds_alternative<CrossedIdsOptions>(layer)) return true;
  const auto* const options = std::get_if<TextVectorizationOptions>(&layer);
  if (!options || options->output_mode != OutputMode::int_ || options->output_sequence_length) return false;
  const auto* const split = std::get_if<Split>(&options->split);
  return !split || *split != Split::none || !options->ngrams.widths().empty();
}

}  // namespace tutti::saved_model
