#include <array>
#include <charconv>

#include "tutti/core/fingerprint64.h"
#include "tutti/core/siphash.h"
#include "tutti/keras/layers/preprocessing/hash_bucket_internal.h"

namespace tutti::keras::layers {

int64_t hash_bucket(std::string_view text, int64_t num_buckets, const std::optional<HashSalt>& salt) {
  const uint64_t hash = salt ? siphash24(text, salt->first, salt->second) : fingerprint64(text);
  return static_cast<int64_t>(hash % static_cast<uint64_t>(num_buckets));
}

int64_t hash_bucket(int64_t value, int64_t num_buckets, const std::optional<HashSalt>& salt) {
  std::array<char, 20> digits;  // "-9223372036854775808"
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return hash_bucket(std::string_view(digits.data(), static_cast<size_t>(end - digits.data())), num_buckets, salt);
}

}  // namespace tutti::keras::layers
