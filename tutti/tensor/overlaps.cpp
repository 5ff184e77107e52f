#include "tutti/tensor/overlaps.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tutti/tensor/copied_view.h"
#include "tutti/tensor/mesh_arguments.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/rules/rule_table.h"
#include "tutti/tensor/size_check.h"

namespace tutti {
namespace {

// Memory that is not there: places in it are compared, and nothing is read.
c10::Storage memory_of_no_bytes() {
  void* const anywhere = reinterpret_cast<void*>(uintptr_t{1} << 12);
  return {c10::Storage::use_byte_size_t(), 0, {anywhere, c10::kMeta}, nullptr, false};
}

Tensor placed_in(const c10::Storage& memory, const Tensor& tensor, int64_t offset) {
  Tensor placed = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(memory),
                                                           c10::DispatchKeySet(c10::DispatchKey::Meta), tensor.dtype());
  placed.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), offset);
  return placed;
}

bool share_memory(const Tensor& a, const Tensor& b) { return mesh_impl(a).shares_memory_with(mesh_impl(b)); }

// Where a view that had to be copied would lie; undefined for a view of pieces, which does not know where it begins. A
// view of the copy lies somewhere in its place.
Tensor place_of(const Tensor& tensor, const c10::Storage& memory) {
  const auto& impl = mesh_impl(tensor);
  if (!impl.copied_view) return impl.is_partial_view() ? Tensor() : placed_in(memory, tensor, 0);
  const Tensor viewed = place_of(impl.copied_view->viewed(), memory);
  return viewed.defined() ? impl.copied_view->view_of(viewed) : Tensor();
}

bool are_copies_apart(const Tensor& a, const Tensor& b, const c10::Storage& memory) {
  if (!mesh_impl(a).copied_view || !mesh_impl(b).copied_view) return false;
  const Tensor place_of_a = place_of(a, memory), place_of_b = place_of(b, memory);
  return place_of_a.defined() && place_of_b.defined() &&
         at::get_overlap_status(place_of_a, place_of_b) == at::MemOverlapStatus::No;
}

// How pieces that are views of the same buffers lie; nothing where there are none: copies have their places in memory.
// What begins and ends at one place is the same, whatever strides the pieces have.
std::optional<at::MemOverlapStatus> overlap_of_pieces(const Tensor& a, const Tensor& b) {
  using Status = at::MemOverlapStatus;
  const Components &of_a = mesh_impl(a).components(), &of_b = mesh_impl(b).components();
  std::optional<Status> overlap;
  for (size_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i) {
    if (!of_a[i].defined() || !of_b[i].defined() || !of_a[i].storage().is_alias_of(of_b[i].storage())) continue;
    if (of_a[i].numel() == 0 || of_b[i].numel() == 0) continue;
    const bool is_same = of_a[i].storage_offset() == of_b[i].storage_offset() && of_a[i].numel() == of_b[i].numel();
    const Status here = is_same ? Status::Full : at::get_overlap_status(of_a[i], of_b[i]);
    if (!overlap || here == Status::Partial || overlap == Status::No) overlap = here;
  }
  return overlap;
}

// What is written, and others in its memory, as they would lie on one device.
class OneMemory {
 public:
  explicit OneMemory(const Tensor& written) : written_(written) {}

  const Tensor& written() const { return placed_; }
  Tensor place(const Tensor& other) const {
    if (other.is_same(written_)) return placed_;  // of which LibTorch knows that it overlaps, whatever its strides
    const int64_t here = written_.storage_offset();
    const auto overlap = overlap_of_pieces(written_, other);
    if (overlap == at::MemOverlapStatus::No || (!overlap && are_copies_apart(written_, other, memory_)))
      return without_memory(other);
    if (!overlap) return placed_in(memory_, other, other.storage_offset());
    const bool is_moved = overlap == at::MemOverlapStatus::Partial && other.numel() == written_.numel();
    return placed_in(memory_, other, is_moved ? here + 1 : here);
  }

 private:
  const Tensor& written_;
  const c10::Storage memory_ = memory_of_no_bytes();
  const Tensor placed_ = placed_in(memory_, written_, written_.storage_offset());
};

// Of pointwise ops: the same elements, or none in common.
void check_shared(const Tensor& written, const Tensor& read) {
  if (written.is_same(read)) return;
  const OneMemory memory(written);
  at::assert_no_partial_overlap(memory.written(), memory.place(read));
}

// Of others LibTorch itself says what they may share.
void check_in_one_memory(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> arguments, const Tensor& written) {
  const OneMemory memory(written);
  const at::NoGradGuard no_grad;
  check_sizes(op, arguments, [&](const Tensor& tensor) {
    const bool is_there = is_mesh_tensor(tensor) && share_memory(written, tensor);
    return is_there ? memory.place(tensor) : without_memory(tensor);
  });
}

// One mask and one value are masked_fill_'s, which may share.
void check_index_put(at::ArrayRef<at::IValue> arguments, const Tensor& written, const std::vector<Tensor>& reads) {
  const auto indices = arguments[1].toOptionalTensorVector();
  const auto is_there = [](const auto& index) { return index && index->defined(); };
  const auto is_mask = [](const auto& index) { return index->scalar_type() == at::kBool; };
  const auto first = std::ranges::find_if(indices, is_there);
  const bool accumulates = arguments[3].toBool();
  if (!accumulates && std::ranges::count_if(indices, is_there) == 1 && is_mask(*first) &&
      arguments[2].toTensor().numel() == 1)
    return;
  const OneMemory memory(written);
  for (const Tensor& read : reads) at::assert_no_overlap(memory.written(), memory.place(read));
}

}  // namespace

void check_overlaps(const c10::OperatorHandle& op, const OperatorInfo& info, at::ArrayRef<at::IValue> arguments) {
  if (!info.writes_any) return;
  const bool may_overlap = may_write_overlaps(info.name);
  const auto reads_of = [&](const Tensor& written) {
    std::vector<Tensor> reads;
    if (written.numel() == 0 && !info.writes_out) return reads;  // else it may be resized
    for (size_t i = 0; i < arguments.size(); ++i)
      if (!info.writes[i])
        for_each_mesh_tensor(arguments[i], [&](const Tensor& read, int) {
          if (share_memory(written, read)) reads.push_back(read);
        });
    return reads;
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!info.writes[i]) continue;
    for_each_mesh_tensor(arguments[i], [&](const Tensor& written, int) {
      if (puts_at_indices(info.name)) check_index_put(arguments, written, reads_of(written));
      if (!may_overlap && arguments[i].isTensor()) {
        const std::vector<Tensor> reads = reads_of(written);
        if (info.rule == pointwise)
          for (const Tensor& read : reads) check_shared(written, read);
        else if (!reads.empty())
          check_in_one_memory(op, arguments, written);
      }
      if (at::has_internal_overlap(written) != at::MemOverlap::Yes) return;
      check_sizes(op, arguments);
      if (!info.writes_out && !may_overlap) at::assert_no_internal_overlap(written);
    });
  }
}

}  // namespace tutti
