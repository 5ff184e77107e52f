#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>

namespace tutti::saved_model::pt2 {

// Numbers that torch.export's schema has for what LibTorch has others for. Nothing where the other side has none.
std::optional<int> code_of_dtype(at::ScalarType dtype);
std::optional<at::ScalarType> dtype_of_code(int64_t code);
// A memory format and a layout as arguments of operators: by LibTorch's numbers.
std::optional<int> code_of_memory_format(int64_t format);
std::optional<int64_t> memory_format_of_code(int64_t code);
std::optional<int> code_of_layout(int64_t layout);
std::optional<int64_t> layout_of_code(int64_t code);

}  // namespace tutti::saved_model::pt2
