#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// By what feature columns make ids of the values of features: the options of CategoryIds and CrossedIds.
namespace tutti::keras::layers {

// Where an example has no category, in ids [batch, n].
inline constexpr int64_t kNoCategory = std::numeric_limits<int64_t>::min();

struct CategoryIdsOptions {
  enum class Kind { vocabulary, identity, hash };

  std::string column = {};   // in whose name errors speak
  std::string feature = {};  // which it reads
  bool is_text = true;       // else integers
  Kind kind = Kind::hash;
  std::shared_ptr<const std::vector<std::string>> vocabulary = {};  // of that kind: integers as their digits
  int64_t num_buckets = 0;  // of a vocabulary: ids behind it, for the rest by its hash
  std::optional<int64_t> default_value =
      {};                                    // of a value that has no id; none: -1, and itself where it is the identity
  bool has_lengths = false;                  // a second input says how many values each example has
  std::optional<int64_t> refused_from = {};  // ids from which on it throws
};

struct CrossedIdsOptions {
  // What a key is: ids, the values of a feature, or these with their lengths, which are two inputs.
  enum class Key { ids, feature, feature_with_lengths };

  std::string column = {};
  int64_t hash_bucket_size = 0;
  uint64_t hash_key = 0;  // where the hash starts
  std::vector<Key> keys = {};
};

}  // namespace tutti::keras::layers
