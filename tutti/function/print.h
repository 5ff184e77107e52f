#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <iosfwd>
#include <string>
#include <variant>
#include <vector>

#include "tutti/core/str.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti {
namespace function_internal {

using Printed = std::variant<std::string, Tensor>;
void print(std::ostream& out, const std::vector<Printed>& parts);
std::ostream& standard_error();

template <class Part>
Printed printed(const Part& part) {
  if constexpr (std::derived_from<Part, Tensor>)
    return static_cast<const Tensor&>(part);
  else
    return tutti::str(part);
}

struct Print {
  template <class... Parts>
  void operator()(std::ostream& out, const Parts&... parts) const {
    function_internal::print(out, {printed(parts)...});
  }
  template <class... Parts>
  requires(!std::derived_from<Parts, std::ios_base> && ...) void operator()(const Parts&... parts) const {
    (*this)(standard_error(), parts...);
  }
};

}  // namespace function_internal

// Prints a line of its arguments with blanks between them, to standard error or to the stream that comes first, in each
// replay of a recorded function too: there tensors have the values of that replay, and all else the text that it had
// when the function was recorded. The stream has to outlive the function.
//
//   print("loss", loss, "at", 0.1);  // loss 0.25 at 0.1
//
// Of more than six elements along an axis the first and last three are printed. An object, so that LibTorch's function
// of that name is not found beside it. TF: tf.print.
inline constexpr function_internal::Print print;

}  // namespace tutti
