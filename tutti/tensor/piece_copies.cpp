#include "tutti/tensor/piece_copies.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/copy_on_write.h"
#include "tutti/tensor/host_boxes.h"
#include "tutti/tensor/mesh_members.h"
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

// An axis of stride 0 has one element in memory.
at::DimVector sizes_in_memory(const at::DimVector& sizes, const at::DimVector& strides) {
  at::DimVector result = sizes;
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (strides[axis] == 0) result[axis] = 1;
  return result;
}

// The part of a copy that goes into memory in which some axes have one element only.
PieceCopy within(PieceCopy copy, at::IntArrayRef sizes) {
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    copy.lengths[axis] = std::min(copy.lengths[axis], sizes[axis]);
    if (sizes[axis] == 1) copy.to[axis] = 0;
  }
  return copy;
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

PieceCopies::PieceCopies(const Spec* from, const Spec* to)
    : from_(from), to_(to), joins_(from->num_components > 1 && to->num_components == 1) {
  for (int i = 0; i < to->num_components; ++i) {
    Piece piece{{}, copies_of(from, to, i), -1};
    for (int axis = 0; axis < to->rank(); ++axis) piece.sizes.push_back(to->length(i, axis));
    for (int earlier = 0; earlier < i && piece.same_as < 0 && !piece.copies.empty(); ++earlier)
      if (to->is_here(earlier) && are_same_sums(pieces_[static_cast<size_t>(earlier)].copies, piece.copies))
        piece.same_as = earlier;
    pieces_.push_back(std::move(piece));
  }
  if (from->shape->divided()) plan_exchange();
}

int64_t PieceCopies::Parcel::numel() const {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{1}, std::multiplies<>());
}

// What the pieces of one process are made of and only another one has, in an order that both know.
std::vector<PieceCopies::Parcel> PieceCopies::parcels(int sender, int receiver) const {
  const MeshShape& shape = *from_->shape;
  std::vector<Parcel> found;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const int owner = shape.owner(static_cast<int>(i), to_->stored);
    if (owner >= 0 && owner != receiver) continue;
    for (const PieceCopy& copy : pieces_[i].copies)
      for (const int term : copy.terms) {
        if (shape.owner(term, from_->stored) != sender) continue;
        Parcel parcel{term, copy.from, copy.lengths};
        if (std::find(found.begin(), found.end(), parcel) == found.end()) found.push_back(std::move(parcel));
      }
  }
  return found;
}

void PieceCopies::plan_exchange() {
  const auto& [dimension, rank, processes] = from_->shape->division;
  sent_.resize(static_cast<size_t>(processes));
  received_.resize(static_cast<size_t>(processes));
  for (int sender = 0; sender < processes; ++sender)
    for (int receiver = 0; receiver < processes; ++receiver) {
      if (sender == receiver) continue;
      std::vector<Parcel> found = parcels(sender, receiver);
      int64_t elements = 0;
      for (const Parcel& parcel : found) elements += parcel.numel();
      most_ = std::max(most_, elements);
      if (sender == rank) sent_[static_cast<size_t>(receiver)] = found;
      if (receiver == rank) received_[static_cast<size_t>(sender)] = std::move(found);
    }
}

// The components, and in the place of those of other processes tensors of which only what was received is of value.
// What is yet to be computed is: else it would depend on the process whether a result has it yet to compute.
Components PieceCopies::with_stand_ins(const TensorMeta& meta, Components components, const std::string& cause) const {
  const auto group = group_of(*from_->shape);
  const auto options = meta.options().device(at::kCPU);
  const Tensor sent = at::empty({group->size(), most_}, options), received = at::empty({group->size(), most_}, options);
  const auto for_each_place = [](const Tensor& pack, const std::vector<std::vector<Parcel>>& parcels, auto f) {
    for (size_t process = 0; process < parcels.size(); ++process) {
      int64_t place = 0;
      for (const Parcel& parcel : parcels[process]) {
        const Tensor row = pack.select(0, static_cast<int64_t>(process));
        f(parcel, row.narrow(0, place, parcel.numel()).view(parcel.lengths));
        place += parcel.numel();
      }
    }
  };
  for (Tensor& component : components)
    if (component.defined()) component = component.resolve_conj().resolve_neg();
  for_each_place(sent, sent_, [&](const Parcel& parcel, const Tensor& place) {
    place.copy_(box(components[static_cast<size_t>(parcel.component)], parcel.first, parcel.lengths));
  });
  group->run({.kind = CollectiveKind::all_to_all,
              .dtype = Dtype::uint8,
              .count = most_ * static_cast<int64_t>(meta.dtype.itemsize()),
              .input = sent.const_data_ptr(),
              .output = received.mutable_data_ptr(),
              .name = cause.c_str()});
  for_each_place(received, received_, [&](const Parcel& parcel, const Tensor& place) {
    Tensor& stand_in = components[static_cast<size_t>(parcel.component)];
    if (!stand_in.defined()) {
      at::DimVector sizes;
      for (int axis = 0; axis < from_->rank(); ++axis) sizes.push_back(from_->length(parcel.component, axis));
      stand_in = empty_piece(sizes, meta, meta.device);
      if (stand_in.sizes() != at::IntArrayRef(sizes)) stand_in = at::empty(sizes, meta.options());  // repeats an axis
    }
    box(stand_in, parcel.first, parcel.lengths).copy_(place);
  });
  return components;
}

// Memory for a piece, with the axes in the order in which the components have them.
Tensor PieceCopies::empty_piece(const at::DimVector& sizes, const TensorMeta& meta, c10::Device device) const {
  const at::DimVector strides = strides_like(sizes, *from_, from_->sizes, meta.strides);
  return at::empty_strided(sizes_in_memory(sizes, strides), strides, meta.options().device(device));
}

// Of a piece that is a part of one component on its device: that part. Undefined for other pieces, and for a whole that
// the part would be with other strides than its mesh tensor has.
Tensor PieceCopies::part(const Piece& piece, const TensorMeta& meta, const Components& components,
                         c10::Device device) const {
  if (piece.copies.size() != 1 || piece.copies[0].terms.size() != 1) return {};
  const PieceCopy& copy = piece.copies[0];
  const Tensor& component = components[static_cast<size_t>(copy.terms[0])];
  if (component.device() != device) return {};
  Tensor part = box(component, copy.from, copy.lengths);
  if (!joins_) return part;
  const at::DimVector strides = strides_like(piece.sizes, *from_, from_->sizes, meta.strides);
  return part.strides() == at::IntArrayRef(strides) ? part : Tensor();
}

Components PieceCopies::run(const TensorMeta& meta, const Components& here, Sharing sharing,
                            const std::string& cause) const {
  if (first_here(here).layout() != at::kStrided)
    throw Error(ErrorCode::unimplemented,
                str(cause,
                    ": a sparse tensor is not cut into pieces, as separate buffers ask for; make it dense "
                    "(to_dense()), or what it meets replicated"));
  const Components received = most_ ? with_stand_ins(meta, here, cause) : Components();
  const Components& components = most_ ? received : here;
  Components result;
  HostBoxes boxes;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (!to_->is_here(static_cast<int>(i))) {
      result.emplace_back();
      continue;
    }
    const c10::Device device = to_->device_of(static_cast<int>(i));
    if (Tensor shared = part(piece, meta, components, device); shared.defined()) {
      result.push_back(sharing == Sharing::allowed ? std::move(shared) : share_whole_or_copy(shared));
      continue;
    }
    const Tensor memory = empty_piece(piece.sizes, meta, device);
    const bool repeats = memory.sizes() != at::IntArrayRef(piece.sizes);
    result.push_back(repeats ? memory.expand(piece.sizes) : memory);
    if (piece.same_as >= 0 && !repeats) {
      boxes.run();
      memory.copy_(result[static_cast<size_t>(piece.same_as)]);
      continue;
    }
    for (const PieceCopy& copy : piece.copies) {
      const PieceCopy& wanted = repeats ? within(copy, memory.sizes()) : copy;
      const bool by_ops = CallRecorder::current() || !boxes.add(wanted, components, memory);
      if (by_ops) copy_by_ops(wanted, components, memory);
    }
  }
  boxes.run();
  return result;
}

}  // namespace tutti
