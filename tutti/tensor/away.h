#pragma once

#include <c10/core/Storage.h>

#include <atomic>
#include <memory>

#include "tutti/tensor/components.h"

// Values whose memory is on devices that LibTorch does not know, while the buffers of their tensors wait on the host.
// Whoever reads or writes such a tensor in global view has its value brought home first.
namespace tutti {

// The owner of values that are away. Threads: any.
class ValueKeeper {
 public:
  virtual ~ValueKeeper() = default;
  // Puts the value back into the storage, which is the keeper's no longer. `value_counts` is false where the caller
  // will overwrite the value. Returns whether the value is another than when it went away. Throws: what went wrong on
  // the device; then the value is still away.
  virtual bool bring_home(const c10::Storage& storage, bool value_counts) = 0;
};

// The keeper tells where values are; it must outlive what it has away.
void note_away(const c10::Storage& storage, ValueKeeper& keeper);
void note_home(const c10::Storage& storage);

extern std::atomic<int> g_values_away;
inline bool any_value_is_away() { return g_values_away.load(std::memory_order_relaxed) > 0; }
// Does nothing for what is home. Returns whether a value is another than when it went away.
bool bring_home(const c10::Storage& storage, bool value_counts = true);
bool bring_home(const Components& components, bool value_counts = true);

}  // namespace tutti
