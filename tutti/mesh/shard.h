#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti {

// Bounds of piece `index` of `pieces` of an axis: pieces of ceil(size / pieces), the last ones shorter or empty.
inline int64_t shard_begin(int64_t size, int64_t pieces, int64_t index) {
  const int64_t piece = size / pieces + (size % pieces != 0);  // size + pieces may be more than 64 bits hold
  return piece == 0 || index > size / piece ? size : index * piece;
}
inline int64_t shard_length(int64_t size, int64_t pieces, int64_t index) {
  return shard_begin(size, pieces, index + 1) - shard_begin(size, pieces, index);
}

}  // namespace tutti
