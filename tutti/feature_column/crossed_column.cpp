#include "tutti/feature_column/crossed_column.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/fingerprint64.h"
#include "tutti/core/str.h"
#include "tutti/feature_column/feature_values.h"

namespace tutti::feature_column {
namespace {

// One hash of two. TF: FingerprintCat64.
uint64_t joined(uint64_t first, uint64_t second) {
  constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  const auto shift_mix = [](uint64_t value) { return value ^ (value >> 47); };
  uint64_t hash = first ^ kMultiplier;
  hash ^= shift_mix(second * kMultiplier) * kMultiplier;
  hash *= kMultiplier;
  return shift_mix(shift_mix(hash) * kMultiplier);
}

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

// The hashes of one key's values, example by example.
using HashRows = std::vector<std::vector<uint64_t>>;

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

  SparseIds sparse_ids(const data::Columns& features) const override {
    std::vector<HashRows> crossed;
    for (const bool is_feature : {false, true})
      for (const CrossKey& key : keys_)
        if ((key.feature() != nullptr) == is_feature) crossed.push_back(hashes(key, features));
    FeatureValues places{.num_rows = num_rows(crossed)};
    std::vector<int64_t> ids;
    for (int64_t row = 0; row < places.num_rows; ++row) {
      const std::vector<uint64_t> found = combinations(crossed, static_cast<size_t>(row));
      for (size_t i = 0; i < found.size(); ++i) {
        ids.push_back(static_cast<int64_t>(found[i] % static_cast<uint64_t>(options_.hash_bucket_size)));
        places.places.emplace_back(row, i);
      }
      places.num_places = std::max(places.num_places, static_cast<int64_t>(found.size()));
    }
    return make_sparse_ids(places, ids);
  }

 private:
  // Of one example, the last key's values changing first.
  std::vector<uint64_t> combinations(const std::vector<HashRows>& crossed, size_t row) const {
    std::vector<uint64_t> hashes{options_.hash_key};
    for (const HashRows& key : crossed) {
      std::vector<uint64_t> longer;
      for (const uint64_t hash : hashes)
        for (const uint64_t value : key[row]) longer.push_back(joined(hash, value));
      hashes = std::move(longer);
    }
    return hashes;
  }

  int64_t num_rows(const std::vector<HashRows>& crossed) const {
    for (const HashRows& rows : crossed)
      if (rows.size() != crossed[0].size())
        refuse(str("its keys have ", crossed[0].size(), " and ", rows.size(), " examples in one batch"));
    return static_cast<int64_t>(crossed[0].size());
  }

  HashRows hashes(const CrossKey& key, const data::Columns& features) const {
    if (key.feature()) return feature_hashes(feature_values(features, *key.feature(), *this, /*keep_empty=*/true));
    const SparseIds found = key.column()->sparse_ids(features);
    if (found.weights.defined()) refuse(str("'", key.name(), "' has weights, which cannot be crossed"));
    HashRows rows(static_cast<size_t>(found.num_rows));
    const Tensor ids = found.ids.contiguous(), indices = found.indices.contiguous();
    for (int64_t i = 0; i < ids.numel(); ++i)
      rows[static_cast<size_t>(indices.const_data_ptr<int64_t>()[2 * i])].push_back(
          static_cast<uint64_t>(ids.const_data_ptr<int64_t>()[i]));
    return rows;
  }

  static HashRows feature_hashes(const FeatureValues& found) {
    HashRows rows(static_cast<size_t>(found.num_rows));
    std::visit(
        [&](const auto& values) {
          for (size_t i = 0; i < values.size(); ++i)
            rows[static_cast<size_t>(found.places[i].first)].push_back(hash(values[i]));
        },
        found.values);
    return rows;
  }
  static uint64_t hash(std::string_view text) { return fingerprint64(text); }
  static uint64_t hash(int64_t number) { return static_cast<uint64_t>(number); }

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
