#include "tutti/files/dtype_names.h"

#include <array>
#include <bit>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::files {
namespace {

static_assert(std::endian::native == std::endian::little, "files have little-endian numbers, and are read as they are");

struct Names {
  at::ScalarType dtype;
  std::string_view name;
  std::string_view safetensors;  // empty: it has none
};

constexpr std::array kNames{
    Names{at::kBool, "bool", "BOOL"},
    Names{at::kByte, "uint8", "U8"},
    Names{at::kChar, "int8", "I8"},
    Names{at::kUInt16, "uint16", "U16"},
    Names{at::kShort, "int16", "I16"},
    Names{at::kUInt32, "uint32", "U32"},
    Names{at::kInt, "int32", "I32"},
    Names{at::kUInt64, "uint64", "U64"},
    Names{at::kLong, "int64", "I64"},
    Names{at::kHalf, "float16", "F16"},
    Names{at::kBFloat16, "bfloat16", "BF16"},
    Names{at::kFloat, "float32", "F32"},
    Names{at::kDouble, "float64", "F64"},
    Names{at::kFloat8_e4m3fn, "float8_e4m3fn", "F8_E4M3"},
    Names{at::kFloat8_e5m2, "float8_e5m2", "F8_E5M2"},
    Names{at::kFloat8_e8m0fnu, "float8_e8m0fnu", "F8_E8M0"},
    Names{at::kComplexHalf, "complex32", ""},
    Names{at::kComplexFloat, "complex64", ""},
    Names{at::kComplexDouble, "complex128", ""},
};

const Names& names_of(at::ScalarType dtype) {
  for (const Names& names : kNames)
    if (names.dtype == dtype) return names;
  throw Error(ErrorCode::unimplemented,
              str("tensors of dtype ", c10::toString(dtype), " can't be kept in a file; save dequantize()d ones"));
}

}  // namespace

std::string_view dtype_name(at::ScalarType dtype) { return names_of(dtype).name; }

std::optional<at::ScalarType> dtype_of_name(std::string_view name) {
  for (const Names& names : kNames)
    if (names.name == name) return names.dtype;
  return {};
}

std::string_view safetensors_name(at::ScalarType dtype) {
  const std::string_view name = names_of(dtype).safetensors;
  if (name.empty())
    throw Error(ErrorCode::unimplemented, str("safetensors: the format has no dtype for ", c10::toString(dtype)));
  return name;
}

std::optional<at::ScalarType> dtype_of_safetensors_name(std::string_view name) {
  for (const Names& names : kNames)
    if (!names.safetensors.empty() && names.safetensors == name) return names.dtype;
  return {};
}

std::string form_text(at::ScalarType dtype, c10::IntArrayRef sizes) {
  return str(c10::toString(dtype), ' ', str_list(sizes));
}

}  // namespace tutti::files
