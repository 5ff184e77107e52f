#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <vector>

#include "tutti/export/program.h"

namespace tutti::saved_model {

// What is known of a value of a program before it runs.
struct ValueType {
  at::ScalarType dtype = at::ScalarType::Undefined;  // undefined for text, and where the rank depends on sizes
  std::vector<std::optional<Integer>> sizes = {};    // none: it follows from the inputs' sizes in another way

  size_t rank() const { return sizes.size(); }
  bool is_known() const { return dtype != at::ScalarType::Undefined; }
};

// An extent that is always the same.
inline std::optional<int64_t> constant_of(const std::optional<Integer>& size) {
  if (!size || !size->terms.empty()) return {};
  return size->constant;
}

}  // namespace tutti::saved_model
