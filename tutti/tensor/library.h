#pragma once

#include <ATen/core/operator_name.h>
#include <torch/library.h>

#include <list>
#include <string>

namespace tutti {

// A place to register kernels for one key. LibTorch keeps them as long as it lives, which is as long as the process.
// Threads: one at a time.
inline torch::Library& immortal_library(const char* ns, c10::DispatchKey key) {
  static auto* const libraries = new std::list<torch::Library>();
  return libraries->emplace_back(torch::Library::IMPL, ns, key, __FILE__, __LINE__);
}

// "aten::add.Tensor", as torch::Library takes it.
inline std::string full_name(const c10::OperatorName& op) {
  return op.overload_name.empty() ? op.name : op.name + "." + op.overload_name;
}

}  // namespace tutti
