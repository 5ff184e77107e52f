#include "tutti/tensor/overlaps.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>

#include "tutti/tensor/mesh_arguments.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/rules/rule_table.h"
#include "tutti/tensor/size_check.h"

namespace tutti {
namespace {

// The tensor's place in the memory of its base, which is not there.
Tensor placed_in(const c10::Storage& memory, const Tensor& tensor) {
  Tensor placed = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(memory),
                                                           c10::DispatchKeySet(c10::DispatchKey::Meta), tensor.dtype());
  placed.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  return placed;
}

// The same elements, or none in common.
void check_shared(const Tensor& written, const Tensor& read) {
  if (written.is_same(read) || !mesh_impl(written).shares_memory_with(mesh_impl(read))) return;
  void* const anywhere = reinterpret_cast<void*>(uintptr_t{1} << 12);  // places are compared, and nothing is read
  const c10::Storage memory(c10::Storage::use_byte_size_t(), 0, {anywhere, c10::kMeta}, nullptr, false);
  at::assert_no_partial_overlap(placed_in(memory, written), placed_in(memory, read));
}

}  // namespace

void check_overlaps(const c10::OperatorHandle& op, const OperatorInfo& info, at::ArrayRef<at::IValue> arguments) {
  if (!info.writes_any) return;
  const bool may_overlap = may_write_overlaps(info.name);
  const auto check_read = [&](const Tensor& written) {
    for (size_t i = 0; i < arguments.size(); ++i)
      if (!info.writes[i])
        for_each_mesh_tensor(arguments[i], [&](const Tensor& read, int) { check_shared(written, read); });
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!info.writes[i]) continue;
    for_each_mesh_tensor(arguments[i], [&](const Tensor& written, int) {
      if (info.rule == pointwise && !may_overlap && arguments[i].isTensor()) check_read(written);
      if (at::has_internal_overlap(written) != at::MemOverlap::Yes) return;
      check_sizes(op, arguments);
      if (!info.writes_out && !may_overlap) at::assert_no_internal_overlap(written);
    });
  }
}

}  // namespace tutti
