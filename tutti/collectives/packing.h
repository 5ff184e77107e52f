#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

// The indices of consecutive tensors that are reduced together. A pack is closed as soon as it holds more than
// bytes_per_pack, so that only the last one may hold less; with 0 there is one pack of all.
// Throws: invalid_argument for a negative bytes_per_pack. TF: cross_device_utils.group_value_by_size.
std::vector<std::vector<size_t>> group_by_size(std::span<const int64_t> tensor_bytes, int64_t bytes_per_pack);

// The lengths of the packs that `count` elements, end to end, are cut into: num_packs of floor(count / num_packs), of
// which the last takes the rest too. Empty packs are left out. Throws: invalid_argument unless num_packs >= 1.
// TF: _ConcatAndSplitPacker.
std::vector<int64_t> pack_sizes(int64_t count, int num_packs);

}  // namespace tutti
