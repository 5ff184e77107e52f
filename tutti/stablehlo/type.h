#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

namespace tutti::stablehlo {

using Dims = std::vector<int64_t>;

// Of a value in a program. Sizes are known: programs are static.
struct Type {
  at::ScalarType dtype;
  Dims dims;

  bool operator==(const Type&) const = default;
};

// "f32". Throws: unimplemented for a dtype that StableHLO does not have.
std::string element(at::ScalarType dtype);
// "tensor<2x3xf32>".
std::string to_string(const Type& type);
int64_t numel(const Dims& dims);

// One value of a program, given once.
struct Value {
  int number;
  Type type;

  size_t rank() const { return type.dims.size(); }
  const Dims& dims() const { return type.dims; }
  at::ScalarType dtype() const { return type.dtype; }
};

}  // namespace tutti::stablehlo
