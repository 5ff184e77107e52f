#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tutti/keras/layers/preprocessing/hash_salt.h"

namespace tutti::keras::layers {

// One of [0, num_buckets), by FarmHash's fingerprint of the text or, with a salt, by SipHash.
// TF: tf.strings.to_hash_bucket_fast, tf.strings.to_hash_bucket_strong
int64_t hash_bucket(std::string_view text, int64_t num_buckets, const std::optional<HashSalt>& salt);

// The same of an integer's decimal digits.
int64_t hash_bucket(int64_t value, int64_t num_buckets, const std::optional<HashSalt>& salt);

}  // namespace tutti::keras::layers
