#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace tutti {

// A node in the pointer that LibTorch's graphs have, a std::shared_ptr in LibTorch 2.11.
template <class Node, class... Args>
auto make_graph_node(Args&&... args) {
  using Pointer = decltype(torch::autograd::Edge::function);
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>)
    return std::make_shared<Node>(std::forward<Args>(args)...);
  else
    return c10::make_intrusive<Node>(std::forward<Args>(args)...);
}

}  // namespace tutti
