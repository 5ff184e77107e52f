#include "tutti/distribute/tensor_packs.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "tutti/collectives/packing.h"

namespace tutti {

TensorPacks::TensorPacks(std::span<const ReduceRequest* const> requests, int num_packs) {
  int64_t count = 0;
  for (const ReduceRequest* request : requests) {
    like_.push_back(request->values[0]);
    offsets_.push_back(count);
    count += like_.back().numel();
  }
  sizes_ = pack_sizes(count, num_packs);
  packs_.resize(sizes_.size());
  for (size_t r = 0; r < requests[0]->values.size(); ++r) {
    std::vector<Tensor> flat;
    for (const ReduceRequest* request : requests) flat.push_back(request->values[r].reshape({-1}));
    const Tensor all = at::cat(flat);
    int64_t begin = 0;
    for (size_t p = 0; p < sizes_.size(); begin += sizes_[p++]) packs_[p].push_back(all.narrow(0, begin, sizes_[p]));
  }
}

Tensor TensorPacks::unpack(const std::vector<Tensor>& packs, size_t i) const {
  const int64_t begin = offsets_[i], end = begin + like_[i].numel();
  std::vector<Tensor> pieces;
  int64_t pack_begin = 0;
  for (size_t p = 0; p < packs.size(); pack_begin += sizes_[p++]) {
    const int64_t from = std::max(begin, pack_begin), to = std::min(end, pack_begin + sizes_[p]);
    if (from < to) pieces.push_back(packs[p].narrow(0, from - pack_begin, to - from));
  }
  if (pieces.empty()) return at::empty(like_[i].sizes(), like_[i].options());
  return at::cat(pieces).view(like_[i].sizes());
}

}  // namespace tutti
