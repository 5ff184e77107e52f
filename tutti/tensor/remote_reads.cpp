#include "tutti/tensor/remote_reads.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>

#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/rules/op_traits.h"

namespace tutti {
namespace {

std::atomic<RemoteReads*> reads_of_process{nullptr};

// `ids`: see argument_of_row_numbers.
bool reads_rows(at::ArrayRef<at::IValue> arguments, size_t ids) {
  if (ids == 0 || !arguments[0].isTensor() || !arguments[ids].isTensor()) return false;
  const Tensor& table = arguments[0].toTensor();
  if (!is_mesh_tensor(table) || table.dim() == 0) return false;
  return ids == 1 || arguments[1].toInt() == 0;  // index_select along the rows
}

}  // namespace

RemoteReads* RemoteReads::current() { return reads_of_process.load(std::memory_order_acquire); }

RemoteReadsGuard::RemoteReadsGuard(RemoteReads& reads) : set_(reads), view_(ThreadView::current()) {}
RemoteReadsGuard::Set::Set(RemoteReads& reads) { reads_of_process.store(&reads, std::memory_order_release); }
RemoteReadsGuard::Set::~Set() {
  reads_of_process.store(nullptr, std::memory_order_release);
  const ThreadViewGuard without(ThreadView::current());
}

bool tell_reads(RemoteReads& reads, const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
  const size_t ids = argument_of_row_numbers(op.schema().name());
  const bool of_rows = reads_rows(arguments, ids);
  const auto tell = [&](const at::IValue& value) {
    if (value.isTensor() && is_mesh_tensor(value.toTensor())) reads.read(value.toTensor());
  };
  for (size_t i = of_rows ? 1 : 0; i < arguments.size(); ++i) {
    tell(arguments[i]);
    if (arguments[i].isTensorList() || arguments[i].isOptionalTensorList())
      for (const at::IValue& item : arguments[i].toListRef()) tell(item);
  }
  if (!of_rows) return false;
  const Tensor numbers = local_unread(arguments[ids].toTensor()).detach().to(at::kCPU, at::kLong).contiguous();
  const auto rows = reads.read_rows(arguments[0].toTensor(), numbers);
  if (rows) put_rows(*rows, op, ids, stack);
  return rows.has_value();
}

}  // namespace tutti
