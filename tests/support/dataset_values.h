#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tutti/data/dataset.h"

namespace tutti {

// The numbers in a tensor of any dtype, in row-major order.
inline std::vector<double> numbers(const Tensor& tensor) {
  const Tensor flat = tensor.to(at::kCPU, at::kDouble).contiguous().view(-1);
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

// The numbers in each element, of one pass.
using Numbers = std::vector<std::vector<double>>;
inline Numbers numbers(const data::Dataset<Tensor>& dataset) {
  Numbers all;
  for (const Tensor& element : dataset) all.push_back(numbers(element));
  return all;
}

}  // namespace tutti
