#pragma once

#include "tutti/pjrt/abi.h"

// How a plugin of the tests fills its table of entries.
namespace tutti::pjrt::abi {

template <class Args>
void set(Api& api, Error* (*entry)(Args*)) {
  api.entries[Args::kSlot] = reinterpret_cast<void*>(entry);
}
template <class Args>
void set(Api& api, void (*entry)(Args*)) {
  api.entries[Args::kSlot] = reinterpret_cast<void*>(entry);
}

}  // namespace tutti::pjrt::abi
