#pragma once

#include <memory>

namespace tutti {

class FunctionGradient;
class InnerGraph;

// What calls of a recorded function need to take part in LibTorch's graphs; null where no gradient goes through them.
struct FunctionGraph {
  std::shared_ptr<InnerGraph> inner = {};
  std::shared_ptr<FunctionGradient> gradient = {};

  explicit operator bool() const { return inner != nullptr; }
};

}  // namespace tutti
