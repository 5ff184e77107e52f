#include "tests/support/recorded_columns.h"

#include <ATen/TensorOperators.h>

#include <fstream>
#include <stdexcept>

#include "tests/support/temporary_folder.h"
#include "tutti/feature_column/categorical_column.h"
#include "tutti/feature_column/crossed_column.h"
#include "tutti/feature_column/embedding_column.h"
#include "tutti/feature_column/numeric_column.h"

namespace tutti::oracle {
namespace {

namespace fc = tutti::feature_column;

fc::KeyType key_type(const Json& json) {
  return json.value("dtype", "string") == "int64" ? fc::KeyType::int64 : fc::KeyType::string;
}

fc::FeatureColumn numeric_column(const std::string& key, const Json& json) {
  fc::NumericColumnOptions options{.shape = json.value("shape", keras::Shape{1})};
  if (json.contains("default_value") && json["default_value"].is_array())
    options.default_value = json["default_value"].get<std::vector<float>>();
  else if (json.contains("default_value"))
    options.default_value = {json["default_value"].get<float>()};
  if (json.contains("normalizer")) options.normalizer_fn = [](const Tensor& value) { return (value - 1) / 2; };
  return fc::numeric_column(key, options);
}

fc::FeatureColumn vocabulary_list(const Json& json) {
  const fc::VocabularyColumnOptions options{.default_value = json.value("default_value", -1),
                                            .num_oov_buckets = json.value("num_oov_buckets", 0)};
  const std::string key = json["vocabulary_list"];
  const Json& vocabulary = json["vocabulary"];
  if (vocabulary.at(0).is_number())
    return fc::categorical_column_with_vocabulary_list(key, vocabulary.get<std::vector<int64_t>>(), options);
  return fc::categorical_column_with_vocabulary_list(key, vocabulary.get<std::vector<std::string>>(), options);
}

fc::FeatureColumn vocabulary_file(const Json& json) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "words";
  std::ofstream stream(file);
  for (const std::string word : json["words"]) stream << word << '\n';
  stream.close();
  fc::VocabularyFileOptions options{.default_value = json.value("default_value", -1),
                                    .num_oov_buckets = json.value("num_oov_buckets", 0)};
  if (json.contains("vocabulary_size")) options.vocabulary_size = json["vocabulary_size"].get<int64_t>();
  return fc::categorical_column_with_vocabulary_file(json["vocabulary_file"], file, options);
}

fc::FeatureColumn crossed_column(const Json& json) {
  std::vector<fc::CrossKey> keys;
  for (const Json& key : json["crossed"])
    keys.push_back(key.is_string() ? fc::CrossKey(key.get<std::string>()) : fc::CrossKey(feature_column_of(key)));
  fc::CrossedColumnOptions options{.hash_bucket_size = json["buckets"]};
  if (json.contains("hash_key") && !json["hash_key"].is_null()) options.hash_key = json["hash_key"];
  return fc::crossed_column(keys, options);
}

fc::Combiner combiner_of(const std::string& name) {
  return name == "sum" ? fc::Combiner::sum : name == "mean" ? fc::Combiner::mean : fc::Combiner::sqrtn;
}

fc::FeatureColumn embedding_column(const Json& json) {
  fc::EmbeddingColumnOptions options{.dimension = json["dimension"],
                                     .combiner = combiner_of(json.value("combiner", "mean"))};
  if (json.contains("max_norm") && !json["max_norm"].is_null()) options.max_norm = json["max_norm"].get<double>();
  if (json.contains("table"))
    options.initializer = keras::initializers::Initializer(
        "table", [table = tensor(json["table"])](Tensor& weight) { weight.copy_(table); });
  return fc::embedding_column(feature_column_of(json["embedding"]), options);
}

}  // namespace

fc::FeatureColumn feature_column_of(const Json& json) {
  if (json.contains("numeric")) return numeric_column(json["numeric"], json);
  if (json.contains("bucketized"))
    return fc::bucketized_column(numeric_column(json["bucketized"], json),
                                 json["boundaries"].get<std::vector<double>>());
  if (json.contains("vocabulary_list")) return vocabulary_list(json);
  if (json.contains("vocabulary_file")) return vocabulary_file(json);
  if (json.contains("hash_bucket"))
    return fc::categorical_column_with_hash_bucket(json["hash_bucket"],
                                                   {.hash_bucket_size = json["buckets"], .dtype = key_type(json)});
  if (json.contains("identity")) {
    fc::IdentityColumnOptions options{.num_buckets = json["buckets"]};
    if (json.contains("default_value")) options.default_value = json["default_value"].get<int64_t>();
    return fc::categorical_column_with_identity(json["identity"], options);
  }
  if (json.contains("crossed")) return crossed_column(json);
  if (json.contains("weighted"))
    return fc::weighted_categorical_column(feature_column_of(json["weighted"]), {.weight_feature_key = json["weight"]});
  if (json.contains("indicator")) return fc::indicator_column(feature_column_of(json["indicator"]));
  if (json.contains("embedding")) return embedding_column(json);
  throw std::runtime_error("the column " + json.dump() + " is not read yet");
}

std::vector<fc::FeatureColumn> feature_columns_of(const Json& json) {
  std::vector<fc::FeatureColumn> columns;
  for (const Json& column : json) {
    if (!column.contains("shared_embeddings")) {
      columns.push_back(feature_column_of(column));
      continue;
    }
    for (fc::FeatureColumn& shared :
         fc::shared_embeddings(feature_columns_of(column["shared_embeddings"]), {.dimension = column["dimension"]}))
      columns.push_back(std::move(shared));
  }
  return columns;
}

Strings strings_of(const Json& json) {
  return Strings(json.at("data").get<std::vector<std::string>>(), json.at("shape").get<std::vector<int64_t>>());
}

data::Columns columns_of(const Json& json) {
  data::Columns columns;
  for (const auto& [name, value] : json.items())
    columns.set(name, value.at("dtype") == "string" ? data::Column(strings_of(value)) : data::Column(tensor(value)));
  return columns;
}

}  // namespace tutti::oracle
