#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "tutti/stablehlo/builder.h"

namespace tutti::stablehlo {

// Which elements of a buffer a tensor shows, in elements.
struct View {
  at::ScalarType dtype;
  Dims dims, strides;
  int64_t offset = 0;

  bool operator==(const View&) const = default;
};
// A fresh tensor's.
View dense_view(const Type& type);

// What lies in the buffers of a recorded program while it is written down as values, which never change: a write gives
// a buffer other contents. So LibTorch's views need no ops of their own. A view is its strides, whichever call made it.
class Memory {
 public:
  explicit Memory(Builder& builder) : builder_(builder) {}

  // Memory without a value: zeros, where it is read before it is written.
  int add(int64_t bytes);
  // Throw: unimplemented for a view of another dtype than what was written.
  Value read(int buffer, const View& view);
  void write(int buffer, const View& view, const Value& value);

 private:
  struct Buffer {
    int64_t bytes;
    std::optional<Value> flat = {};                  // all elements, if known
    std::vector<std::pair<View, Value>> known = {};  // what views show now; the first shows all, if flat is not known
  };
  const Value& flat(Buffer& buffer, at::ScalarType dtype);
  Value indices(const View& view);

  Builder& builder_;
  std::vector<Buffer> buffers_;
};

}  // namespace tutti::stablehlo
