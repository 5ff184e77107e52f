#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <optional>
#include <string>
#include <string_view>

namespace tutti::files {

// The name of a dtype in NumPy and PyTorch: "float32". Throws: unimplemented for a dtype that files do not keep
// (quantized ones).
std::string_view dtype_name(at::ScalarType dtype);
std::optional<at::ScalarType> dtype_of_name(std::string_view name);

// The name of a dtype in a safetensors file: "F32". Throws: unimplemented for one that the format does not have;
// complex ones are kept as pairs of real numbers.
std::string_view safetensors_name(at::ScalarType dtype);
std::optional<at::ScalarType> dtype_of_safetensors_name(std::string_view name);

// "Float [2, 3]", for messages.
std::string form_text(at::ScalarType dtype, c10::IntArrayRef sizes);

}  // namespace tutti::files
