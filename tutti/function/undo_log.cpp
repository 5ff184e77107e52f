#include "tutti/function/undo_log.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/clone.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <mutex>
#include <ranges>

#include "tutti/device/gpu.h"
#include "tutti/function/memory_watch.h"
#include "tutti/tensor/call_recorder.h"

namespace tutti {

UndoLog::UndoLog() {
  before_draw(at::detail::getDefaultCPUGenerator());
  for (int i = 0; i < num_gpus(); ++i) before_draw(at::globalContext().defaultGenerator(gpu_device(i)));
}

void UndoLog::before_write(const Tensor& tensor) {
  if (!tensor.is_inference()) before_write(tensor.unsafeGetTensorImpl()->version_counter());
  shapes_.push_back({tensor, at::DimVector(tensor.sizes()), at::DimVector(tensor.strides()), tensor.storage_offset()});
  const c10::Storage& storage = tensor.storage();
  const auto same = [&](const Memory& known) {
    return known.storage.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl();
  };
  if (std::ranges::any_of(memory_, same)) return;
  const NotRecorded keys;
  memory_.push_back({storage, unwatched_bytes(*storage.unsafeGetStorageImpl()).clone()});
}

void UndoLog::before_write(const c10::VariableVersion& version) {
  versions_.push_back({version, static_cast<int64_t>(version.current_version())});
}

void UndoLog::before_draw(const at::Generator& generator) {
  const auto same = [&](const Generator& known) { return known.generator == generator; };
  if (std::ranges::any_of(generators_, same)) return;
  const NotRecorded keys;
  at::Generator drawn = generator;
  const std::scoped_lock lock(drawn.mutex());
  generators_.push_back({generator, drawn.get_state()});
}

void UndoLog::undo() {
  const NotRecorded keys;
  for (const Shape& before : shapes_ | std::views::reverse) {
    c10::TensorImpl& tensor = *before.tensor.unsafeGetTensorImpl();
    if (tensor.sizes() != at::IntArrayRef(before.sizes) || tensor.strides() != at::IntArrayRef(before.strides))
      tensor.set_sizes_and_strides(before.sizes, before.strides, before.offset);
  }
  for (const Memory& before : memory_ | std::views::reverse) {  // one may lie in another
    c10::StorageImpl& storage = *before.storage.unsafeGetStorageImpl();
    storage.set_nbytes(before.bytes.nbytes());
    unwatched_bytes(storage).copy_(before.bytes);
  }
  for (Version& before : versions_ | std::views::reverse) before.version.set_version(before.value);
  for (Generator& before : generators_) {
    const std::scoped_lock lock(before.generator.mutex());
    before.generator.set_state(before.state);
  }
}

}  // namespace tutti
