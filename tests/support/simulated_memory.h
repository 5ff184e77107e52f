#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <cstddef>

namespace tutti {

// The memory of simulated devices. Each has an address range of its own that nothing can read or write: code that takes
// a device's pointer for the host's is killed by the system at that place. The device's kernels see the same bytes
// elsewhere, in host memory. What was just allocated, and what was just freed, holds no numbers (all bits are set).
//
// As CUDA's: memory belongs to the stream that was the current one when it was allocated, and what is freed is so when
// that stream has come there. Other streams may still use it then, unless record_stream() named them. Where kernels are
// late (simulated_kernels.h), what is freed is given to the next who asks on that stream, and holds no numbers when the
// stream comes to where it was allocated again; until then it stays as it is.

constexpr size_t kSimulatedDeviceBytes = size_t{1} << 33;  // which a device has

// Of the calling thread's current device. Throws c10::OutOfMemoryError.
c10::Allocator& simulated_memory();

// Where the device's kernels see these bytes. Requires: a pointer into a device's memory, or null, which stays null.
std::byte* seen_by_kernels(const void* pointer);

// Memory is not freed before this stream, too, has done what it has been given until then.
void used_by(const void* pointer, c10::Stream stream);

// The memory of a graph (simulated_graph.h) holds no numbers from now on.
void poison_memory_of(int graph);
// The memory of a graph that is no more is anybody's, once it is free.
void release_memory_of(int graph);

// -1: it points into no device's memory.
int simulated_device_of(const void* pointer);

}  // namespace tutti
