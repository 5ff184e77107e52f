#include "tutti/feature_column/crossed_column.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/feature_column/feature_values.h"
#include "tutti/keras/layers/preprocessing/category_ids.h"

namespace tutti::feature_column {
namespace {

using keras::layers::CrossedIds;
using keras::layers::CrossedIdsOptions;
using keras::layers::TensorOrText;

class CrossedColumn;

// Keys without crossed columns, whose keys stand in their place.
std::vector<CrossKey> leaves_of(const std::vector<CrossKey>& keys);

std::string crossed_name(const std::vector<CrossKey>& keys) {
  std::vector<std::string> names;
  for (const CrossKey& key : leaves_of(keys)) names.push_back(key.name());
  std::ranges::sort(names);
  std::string name;
  for (const std::string& part : names) name += str(name.empty() ? "" : "_X_", part);
  return name;
}

class CrossedColumn : public FeatureColumnImpl {
 public:
  CrossedColumn(const std::vector<CrossKey>& keys, const CrossedColumnOptions& options)
      : FeatureColumnImpl(crossed_name(keys)), keys_(leaves_of(keys)), options_(options) {
    if (keys.size() < 2) refuse(str("there ", keys.empty() ? "are 0 keys" : "is 1 key", "; two or more are crossed"));
    if (options_.hash_bucket_size < 1)
      refuse(str("hash_bucket_size is ", options_.hash_bucket_size, "; it is at least 1"));
    for (const CrossKey& key : keys_) {
      if (key.feature()) continue;
      if (!key.column()->is_categorical()) refuse(str("'", key.name(), "' is no column of categories"));
      if (!key.column()->can_be_crossed())
        refuse(str("'", key.name(), "' is hashed already; give its key as text, for hashing twice collides more"));
    }
  }

  const std::vector<CrossKey>& keys() const { return keys_; }

  void add_to(data::ParseSpec& spec) const override {
    for (const CrossKey& key : keys_)
      if (const std::string* feature = key.feature())
        add_feature(spec, *feature, data::VarLenFeature<std::string>{*feature});
      else
        key.column()->add_to(spec);
  }
  bool is_categorical() const override { return true; }
  int64_t num_buckets() const override { return options_.hash_bucket_size; }

  Tensor category_ids(const data::Columns& features) const override {
    CrossedIdsOptions options{
        .column = name(), .hash_bucket_size = options_.hash_bucket_size, .hash_key = options_.hash_key};
    std::vector<TensorOrText> inputs;
    for (const CrossKey& key : keys_)
      if (!key.feature()) {
        inputs.emplace_back(key.column()->category_ids(features));
        options.keys.push_back(CrossedIdsOptions::Key::ids);
      }
    for (const CrossKey& key : keys_)
      if (key.feature()) {
        std::vector<TensorOrText> values = feature_values(features, *key.feature(), *this);
        options.keys.push_back(values.size() == 2 ? CrossedIdsOptions::Key::feature_with_lengths
                                                  : CrossedIdsOptions::Key::feature);
        std::ranges::move(values, std::back_inserter(inputs));
      }
    return CrossedIds(std::move(options))(inputs);
  }

 private:
  std::vector<CrossKey> keys_;
  CrossedColumnOptions options_;
};

std::vector<CrossKey> leaves_of(const std::vector<CrossKey>& keys) {
  std::vector<CrossKey> leaves;
  for (const CrossKey& key : keys) {
    const auto* crossed = key.feature() ? nullptr : dynamic_cast<const CrossedColumn*>(key.column().impl().get());
    if (!crossed)
      leaves.push_back(key);
    else
      leaves.insert(leaves.end(), crossed->keys().begin(), crossed->keys().end());
  }
  return leaves;
}

}  // namespace

FeatureColumn crossed_column(const std::vector<CrossKey>& keys, const CrossedColumnOptions& options) {
  return FeatureColumn(std::make_shared<CrossedColumn>(keys, options));
}

}  // namespace tutti::feature_column
