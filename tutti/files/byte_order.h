#pragma once

#include <algorithm>
#include <cstddef>

namespace tutti::files {

// Turns the bytes of each number around: big-endian ones become little-endian, and the other way.
inline void reverse_bytes_of_each(std::byte* bytes, size_t num_bytes, size_t width) {
  for (std::byte* const end = bytes + num_bytes; bytes != end; bytes += width) std::reverse(bytes, bytes + width);
}

}  // namespace tutti::files
