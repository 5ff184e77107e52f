#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tutti::pjrt {

// The numbers are PJRT's.
enum class ElementType : int {
  boolean = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  uint8 = 6,
  uint16 = 7,
  uint32 = 8,
  uint64 = 9,
  float16 = 10,
  float32 = 11,
  float64 = 12,
  bfloat16 = 13,
  complex64 = 14,
  complex128 = 15,
};

// "float32". Throws: unimplemented for a number that is none of these.
std::string_view to_string(ElementType type);
// What one element takes.
int64_t bytes_of(ElementType type);
// What an array takes on the host. Throws: invalid_argument for sizes that are negative or whose product overflows.
int64_t bytes_of(ElementType type, const std::vector<int64_t>& dims);

}  // namespace tutti::pjrt
