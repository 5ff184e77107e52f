#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti {

// What a decomposition reads of a call: its arguments as LibTorch's types.

using Results = std::optional<std::vector<at::IValue>>;

// An optional tensor argument; undefined for none.
at::Tensor tensor_or_none(const at::IValue& value);
// An argument that names axes of a tensor of `rank`, made non-negative; all axes for none. Throws: c10::IndexError.
at::DimVector axes_or_all(const at::IValue& value, int64_t rank);
at::DimVector all_axes(int64_t rank);
// How many elements a reduction of these axes takes together.
double count_of(const at::Tensor& tensor, at::IntArrayRef axes);
// Whether a mesh dimension splits one of these axes, which may be negative.
bool is_sharded(const at::Tensor& tensor, at::IntArrayRef axes);
// The type in which LibTorch sums: of float16 and bfloat16 float32.
at::ScalarType sum_type(at::ScalarType type);
// The same values in another type; the tensor itself where it has that type already, or is undefined.
at::Tensor in_type(const at::Tensor& tensor, at::ScalarType type);
at::Tensor in_sum_type(const at::Tensor& tensor);
// Calls an op by name and overload, such as "aten::mse_loss", "".
std::vector<at::IValue> call(const char* name, const char* overload, std::vector<at::IValue> arguments);

}  // namespace tutti
