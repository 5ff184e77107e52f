#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>

// Finds C++ code that works on the memory of tensors while a function is recorded.
namespace tutti {

// Whether it can: LibTorch 2.11 cannot open memory again.
bool memory_can_be_watched();

// From now on LibTorch throws where C++ asks for the memory. `why`: what it says; null: that a function is recorded.
void forbid_access(c10::StorageImpl& storage, const char* why = nullptr);
// From now on the recorder of the thread is told where C++ asks for the memory, which it gets. Who asks to read alone,
// by const_data_ptr(), is not seen.
void watch_access(c10::StorageImpl& storage);
void open_to_access(c10::StorageImpl& storage);

// All of its bytes, whoever may ask for them: a tensor on the memory, which it does not keep.
at::Tensor unwatched_bytes(c10::StorageImpl& storage);

// How often watched memory was asked for by a thread without a recorder.
uint64_t unseen_accesses();

}  // namespace tutti
