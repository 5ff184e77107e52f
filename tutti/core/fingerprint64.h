#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

// FarmHash's fingerprint of these bytes: a hash that stays the same in all versions and on all machines. It is no
// protection from who chooses the bytes; siphash24 is. Source: google/farmhash, farmhashna. TF: tsl::Fingerprint64.
uint64_t fingerprint64(std::string_view bytes);

}  // namespace tutti
