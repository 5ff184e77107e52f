#include "tutti/stablehlo/type.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::stablehlo {

std::string element(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: return "f32";
    case at::kDouble: return "f64";
    case at::kHalf: return "f16";
    case at::kBFloat16: return "bf16";
    case at::kBool: return "i1";
    case at::kChar: return "i8";
    case at::kShort: return "i16";
    case at::kInt: return "i32";
    case at::kLong: return "i64";
    case at::kByte: return "ui8";
    case at::kUInt32: return "ui32";
    case at::kUInt64: return "ui64";
    default:
      throw Error(ErrorCode::unimplemented,
                  str("elements of dtype ", at::toString(dtype), " in a compiled program; convert them before it"));
  }
}

std::string to_string(const Type& type) {
  std::string text = "tensor<";
  for (const int64_t dim : type.dims) text += str(dim, 'x');
  return text + element(type.dtype) + '>';
}

int64_t numel(const Dims& dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

}  // namespace tutti::stablehlo
