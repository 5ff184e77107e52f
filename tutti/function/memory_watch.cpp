#include "tutti/function/memory_watch.h"

#include <atomic>

#include "tutti/core/error.h"
#include "tutti/function/geometry.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/copy_on_write.h"

namespace tutti {
namespace {

constexpr const char* kMemoryAsked =
    "function: C++ reads or writes the memory of a tensor while the function is recorded (data_ptr, accessor, "
    "printing, "
    "a native loop). What it does there would be done once and never again; do it by tensor operations, or outside of "
    "the function";

std::atomic<uint64_t> g_unseen{0};

void tell_recorder(c10::StorageImpl*) {
  if (auto* recorder = CallRecorder::current())
    recorder->refuse(Error(ErrorCode::failed_precondition, kMemoryAsked));
  else
    ++g_unseen;
}

template <class Storage>
concept CanBeWatched = requires(Storage& storage) {
  storage.clear_data_ptr_access_error_msg_();
  storage.clear_materializer();
};

template <class Storage>
void watch(Storage& storage) {
  if constexpr (CanBeWatched<Storage>)
    if (!storage.has_materializer()) storage.set_materializer(&tell_recorder);
}

template <class Storage>
void open(Storage& storage) {
  if constexpr (CanBeWatched<Storage>) {
    storage.clear_data_ptr_access_error_msg_();
    if (!has_share(storage))
      storage.clear_materializer();  // a share uses the same hook; its writers are LibTorch's own
  }
}

}  // namespace

bool memory_can_be_watched() { return CanBeWatched<c10::StorageImpl>; }
uint64_t unseen_accesses() { return g_unseen; }

void forbid_access(c10::StorageImpl& storage, const char* why) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(why ? why : kMemoryAsked);
}
void watch_access(c10::StorageImpl& storage) { watch(storage); }
void open_to_access(c10::StorageImpl& storage) { open(storage); }

at::Tensor unwatched_bytes(c10::StorageImpl& storage) {
  const c10::DataPtr& memory = storage._mutable_data_ptr_no_checks();
  const size_t bytes = memory ? storage.nbytes() : 0;
  const c10::Storage same(c10::Storage::use_byte_size_t(), bytes, {memory.get(), memory.device()}, nullptr, false);
  return tensor_on(same, {at::kByte, {static_cast<int64_t>(bytes)}, {1}, 0, false, false});
}

}  // namespace tutti
