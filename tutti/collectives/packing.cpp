#include "tutti/collectives/packing.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

std::vector<std::vector<size_t>> group_by_size(std::span<const int64_t> tensor_bytes, int64_t bytes_per_pack) {
  if (bytes_per_pack < 0)
    throw Error(ErrorCode::invalid_argument,
                str("group_by_size: bytes_per_pack is ", bytes_per_pack, "; it must be 0, for one pack, or more"));
  std::vector<std::vector<size_t>> packs;
  int64_t bytes = 0;  // of the last pack
  for (size_t i = 0; i < tensor_bytes.size(); ++i) {
    if (packs.empty() || (bytes_per_pack > 0 && bytes > bytes_per_pack)) {
      packs.emplace_back();
      bytes = 0;
    }
    packs.back().push_back(i);
    bytes += tensor_bytes[i];
  }
  return packs;
}

std::vector<int64_t> pack_sizes(int64_t count, int num_packs) {
  if (num_packs < 1) throw Error(ErrorCode::invalid_argument, str("pack_sizes: ", num_packs, " packs; at least 1"));
  const int64_t size = count / num_packs;
  std::vector<int64_t> sizes;
  if (size > 0) sizes.assign(static_cast<size_t>(num_packs - 1), size);
  const int64_t last = count - size * (num_packs - 1);
  if (last > 0) sizes.push_back(last);
  return sizes;
}

}  // namespace tutti
