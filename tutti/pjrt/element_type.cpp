#include "tutti/pjrt/element_type.h"

#include <array>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::pjrt {
namespace {

struct Kind {
  std::string_view name;
  int bytes;
};
constexpr std::array<Kind, 16> kKinds{{{"", 0},
                                       {"bool", 1},
                                       {"int8", 1},
                                       {"int16", 2},
                                       {"int32", 4},
                                       {"int64", 8},
                                       {"uint8", 1},
                                       {"uint16", 2},
                                       {"uint32", 4},
                                       {"uint64", 8},
                                       {"float16", 2},
                                       {"float32", 4},
                                       {"float64", 8},
                                       {"bfloat16", 2},
                                       {"complex64", 8},
                                       {"complex128", 16}}};

const Kind& kind_of(ElementType type) {
  const auto number = static_cast<size_t>(type);
  if (number == 0 || number >= kKinds.size())
    throw Error(ErrorCode::unimplemented,
                str("elements of PJRT's type ", number, ": those up to complex128 (15) are known here"));
  return kKinds[number];
}

}  // namespace

std::string_view to_string(ElementType type) { return kind_of(type).name; }

int64_t bytes_of(ElementType type) { return kind_of(type).bytes; }

int64_t bytes_of(ElementType type, const std::vector<int64_t>& dims) {
  int64_t bytes = bytes_of(type);
  for (const int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes))
      throw Error(ErrorCode::invalid_argument, str("an array of sizes ", str_list(dims), " cannot be"));
  return bytes;
}

}  // namespace tutti::pjrt
