#include "tutti/tensor/piece_copies.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/_lazy_clone.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/COW.h>

#include <algorithm>
#include <mutex>

#include "tutti/tensor/host_boxes.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti {
namespace {

bool equal_along(const Spec* from, int component, const Spec* to, int piece, DimensionMask dimensions) {
  for (int d = 0; d < from->shape->num_dimensions; ++d)
    if ((dimensions & from->stored) >> d & 1)
      if (from->shape->coordinate(component, from->stored, d) != to->shape->coordinate(piece, to->stored, d))
        return false;
  return true;
}

bool first_along(const Spec* spec, int component, DimensionMask dimensions) {
  for (int d = 0; d < spec->shape->num_dimensions; ++d)
    if ((dimensions >> d & 1) && spec->shape->coordinate(component, spec->stored, d) != 0) return false;
  return true;
}

// The elements that a component and a piece have in common; false where there are none.
bool overlap(const Spec* from, int component, const Spec* to, int piece, PieceCopy& copy) {
  for (int axis = 0; axis < to->rank(); ++axis) {
    const int64_t begin = from->begin(component, axis), wanted = to->begin(piece, axis);
    const int64_t first = std::max(begin, wanted);
    const int64_t end = std::min(begin + from->length(component, axis), wanted + to->length(piece, axis));
    if (first >= end) return false;
    copy.from.push_back(first - begin);
    copy.to.push_back(first - wanted);
    copy.lengths.push_back(end - first);
  }
  return true;
}

std::vector<PieceCopy> copies_of(const Spec* from, const Spec* to, int piece) {
  const DimensionMask sums = from->unreduced & ~to->unreduced;
  // Along the other dimensions each piece has its own terms, or the copies are equal: its own device's is taken.
  const DimensionMask own = ~sums & ~from->sharded();
  std::vector<PieceCopy> copies;
  for (int first = 0; first < from->num_components; ++first) {
    PieceCopy copy;
    if (!first_along(from, first, sums) || !equal_along(from, first, to, piece, own)) continue;
    if (!overlap(from, first, to, piece, copy)) continue;
    for (int offset = 0; offset < from->num_components; ++offset)  // components are numbered row-major
      if (first_along(from, offset, ~sums)) copy.terms.push_back(first + offset);
    copies.push_back(std::move(copy));
  }
  return copies;
}

bool are_same_sums(const std::vector<PieceCopy>& a, const std::vector<PieceCopy>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const PieceCopy& x, const PieceCopy& y) {
    return x.terms.size() > 1 && x.terms == y.terms && x.from == y.from && x.to == y.to && x.lengths == y.lengths;
  });
}

Tensor box(const Tensor& tensor, const at::DimVector& first, const at::DimVector& lengths) {
  Tensor part = tensor;
  for (size_t axis = 0; axis < lengths.size(); ++axis) {
    const auto dim = static_cast<int64_t>(axis);
    if (lengths[axis] != tensor.size(dim)) part = part.narrow(dim, first[axis], lengths[axis]);
  }
  return part;
}

// Memory with the order of axes that `like` has. Where axes of length 1 leave it open, row-major.
Tensor empty_like(const Tensor& like, const at::DimVector& sizes, c10::Device device) {
  const auto options = like.options().device(device);
  if (like.is_contiguous()) return at::empty(sizes, options);
  return at::empty_strided(sizes, at::infer_dense_strides(sizes, like.strides()), options);
}

// Any dtypes, strides and devices, by ops.
void copy_by_ops(const PieceCopy& copy, const Components& components, const Tensor& piece) {
  BufferSum sum;
  for (const int term : copy.terms) {
    const Tensor part = box(components[static_cast<size_t>(term)], copy.from, copy.lengths);
    sum.values.push_back(copy.terms.size() == 1 ? part
                                                : part.to(piece.device()).contiguous().resolve_conj().resolve_neg());
  }
  if (copy.terms.size() > 1) sum_buffers({&sum, 1});
  box(piece, copy.to, copy.lengths).copy_(copy.terms.size() > 1 ? sum.result : sum.values[0]);
}

}  // namespace

Tensor owned(const Tensor& tensor) {
  namespace cow = c10::impl::cow;
  if (!tensor.has_storage() || tensor.storage().nbytes() != tensor.nbytes()) return tensor.clone();
  static std::mutex mutex;  // LibTorch turns the memory into shared memory in place
  const std::lock_guard lock(mutex);
  const auto& storage = *tensor.storage().unsafeGetStorageImpl();
  const bool can_share = cow::is_cow_data_ptr(storage.data_ptr()) || cow::has_simple_data_ptr(storage);
  return can_share ? at::_lazy_clone(tensor) : tensor.clone();
}

c10::Device component_device(const Spec* spec, int index) {
  const MeshShape& shape = *spec->shape;
  return shape.mesh.shares_memory() ? shape.home : shape.devices[static_cast<size_t>(index)];
}

PieceCopies::PieceCopies(const Spec* from, const Spec* to) : to_(to) {
  for (int i = 0; i < to->num_components; ++i) {
    Piece piece{{}, copies_of(from, to, i), -1};
    for (int axis = 0; axis < to->rank(); ++axis) piece.sizes.push_back(to->length(i, axis));
    for (int earlier = 0; earlier < i && piece.same_as < 0 && !piece.copies.empty(); ++earlier)
      if (are_same_sums(pieces_[static_cast<size_t>(earlier)].copies, piece.copies)) piece.same_as = earlier;
    pieces_.push_back(std::move(piece));
  }
}

// Of a piece that is a part of one component: that part.
Tensor PieceCopies::shared(const Piece& piece, const Components& components, Sharing sharing) const {
  const PieceCopy& copy = piece.copies[0];
  const Tensor part = box(components[static_cast<size_t>(copy.terms[0])], copy.from, copy.lengths);
  return sharing == Sharing::allowed ? part : owned(part);
}

Components PieceCopies::run(const Components& components, Sharing sharing) const {
  Components result;
  HostBoxes boxes;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const c10::Device device = component_device(to_, static_cast<int>(i));
    const bool is_part = piece.copies.size() == 1 && piece.copies[0].terms.size() == 1;
    if (is_part && components[static_cast<size_t>(piece.copies[0].terms[0])].device() == device) {
      result.push_back(shared(piece, components, sharing));
      continue;
    }
    const Tensor& like = components[piece.copies.empty() ? 0 : static_cast<size_t>(piece.copies[0].terms[0])];
    result.push_back(empty_like(like, piece.sizes, device));
    if (piece.same_as >= 0) {
      boxes.run();
      result.back().copy_(result[static_cast<size_t>(piece.same_as)]);
      continue;
    }
    for (const PieceCopy& copy : piece.copies)
      if (!boxes.add(copy, components, result.back())) copy_by_ops(copy, components, result.back());
  }
  boxes.run();
  return result;
}

}  // namespace tutti
