#include "tutti/tensor/dtype_of.h"

namespace tutti {

std::optional<Dtype> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return Dtype::float32;
    case at::kDouble: return Dtype::float64;
    case at::kHalf: return Dtype::float16;
    case at::kBFloat16: return Dtype::bfloat16;
    case at::kComplexFloat: return Dtype::complex64;
    case at::kComplexDouble: return Dtype::complex128;
    case at::kChar: return Dtype::int8;
    case at::kByte: return Dtype::uint8;
    case at::kShort: return Dtype::int16;
    case at::kInt: return Dtype::int32;
    case at::kLong: return Dtype::int64;
    default: return {};
  }
}

}  // namespace tutti
