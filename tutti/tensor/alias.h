#pragma once

#include <ATen/core/Tensor.h>

namespace tutti {

// Whether both are defined and lie in one memory. LibTorch's `is_alias_of` looks at the memory's address too, which a
// value that is being recorded does not give.
inline bool are_aliases(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.has_storage() && b.has_storage() &&
         a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

}  // namespace tutti
