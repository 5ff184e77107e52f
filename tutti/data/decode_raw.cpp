#include "tutti/data/decode_raw.h"

#include <ATen/ops/empty.h>

#include <bit>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {

static_assert(std::endian::native == std::endian::little);

Tensor decode_raw(const Strings& bytes, at::ScalarType dtype) {
  const size_t length = bytes.size() > 0 ? bytes[0].size() : 0;
  const size_t width = c10::elementSize(dtype);
  if (length % width != 0)
    throw Error(ErrorCode::invalid_argument,
                str("decode_raw: a string of ", length, " bytes; elements of ", c10::toString(dtype), " have ", width));
  std::vector<int64_t> shape = bytes.shape();
  shape.push_back(static_cast<int64_t>(length / width));
  Tensor result = at::empty(shape, dtype);
  auto* to = static_cast<std::byte*>(result.mutable_data_ptr());
  for (const std::string& value : bytes.values()) {
    if (value.size() != length)
      throw Error(ErrorCode::invalid_argument,
                  str("decode_raw: strings of ", length, " and of ", value.size(), " bytes; all must have as many"));
    if (length > 0) std::memcpy(to, value.data(), length);
    to += length;
  }
  return result;
}

}  // namespace tutti::data
