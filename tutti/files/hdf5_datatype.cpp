#include "tutti/files/hdf5_datatype.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::files {
namespace {

constexpr std::array kDtypesOfHdf5{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kChar,   at::kShort,
                                   at::kInt,   at::kLong,   at::kByte, at::kUInt16,   at::kUInt32, at::kUInt64};

std::string message_of(std::initializer_list<int> bytes) {
  std::string message;
  for (const int byte : bytes) message += static_cast<char>(byte);
  return message;
}

// Class and version, flags, bytes of a number; the first bit of it, and how many there are.
std::string integer_message(int bytes, bool is_signed) {
  return message_of({0x10, is_signed ? 8 : 0, 0, 0, bytes, 0, 0, 0, 0, 0, 8 * bytes, 0});
}

// The same with the places and sizes of exponent and mantissa, and the bias.
std::string float_message(int bytes, int exponent_bits, int bias) {
  const int bits = 8 * bytes, mantissa_bits = bits - 1 - exponent_bits;
  return message_of({0x11, 0x20,          bits - 1,      0, bytes,         0,           0,         0, 0, 0, bits,
                     0,    mantissa_bits, exponent_bits, 0, mantissa_bits, bias & 0xFF, bias >> 8, 0, 0});
}

}  // namespace

std::string hdf5_datatype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: return float_message(4, 8, 127);
    case at::kDouble: return float_message(8, 11, 1023);
    case at::kHalf: return float_message(2, 5, 15);
    case at::kBFloat16: return message_of({0x15, 0, 0, 0, 2, 0, 0, 0});
    case at::kChar: return integer_message(1, true);
    case at::kShort: return integer_message(2, true);
    case at::kInt: return integer_message(4, true);
    case at::kLong: return integer_message(8, true);
    case at::kByte: return integer_message(1, false);
    case at::kUInt16: return integer_message(2, false);
    case at::kUInt32: return integer_message(4, false);
    case at::kUInt64: return integer_message(8, false);
    default:
      throw Error(ErrorCode::unimplemented,
                  str("HDF5: tensors of dtype ", c10::toString(dtype),
                      " are not kept in these files; integers, bfloat16 and IEEE's floats are"));
  }
}

std::optional<Hdf5Datatype> parse_hdf5_datatype(std::string_view message) {
  if (message.size() < 8) return {};
  std::string little(message);
  little[0] = static_cast<char>((little[0] & 0x0F) | 0x10);  // versions 1 to 3 say the same of numbers
  const bool is_number = (little[0] & 0x0F) <= 1;
  const bool is_big_endian = is_number && (little[1] & 1) != 0;
  if (is_number) little[1] = static_cast<char>(little[1] & ~1);
  for (const at::ScalarType dtype : kDtypesOfHdf5)
    if (little.starts_with(hdf5_datatype(dtype))) return Hdf5Datatype{dtype, is_big_endian};
  return {};
}

}  // namespace tutti::files
