#pragma once

#include <cstdint>
#include <string_view>

namespace tutti {

// A hash of these bytes that nobody can choose them for who doesn't know the key. Source: Aumasson and Bernstein 2012,
// doi:10.1007/978-3-642-34931-7_28. TF: tsl::StrongKeyedHash.
uint64_t siphash24(std::string_view bytes, uint64_t first_key, uint64_t second_key);

}  // namespace tutti
