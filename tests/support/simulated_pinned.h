#pragma once

#include <c10/core/Allocator.h>

#include <memory>

namespace tutti {

// The host's memory, of which it is known that it is pinned. Freed memory holds other numbers.
c10::Allocator& simulated_pinned_memory();

bool is_simulated_pinned(const void* pointer);

// What keeps memory that a copy has yet to read: as CUDA's allocator, which knows its blocks by their contexts and by
// where they begin. Null: it is none of these, and nothing keeps it.
std::shared_ptr<const void> kept_for_copy(const void* pointer, const void* context);

}  // namespace tutti
