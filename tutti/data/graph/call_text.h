#pragma once

#include <iomanip>
#include <ranges>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace tutti::data::graph {

// The number in as many digits as tell it from every other one.
std::string exact(double number);

// The text, or its first bytes with a checksum of the rest where it is long.
std::string abridged(const std::string& text);

namespace call_text_internal {

inline void write(std::ostream& out, std::string_view text) { out << std::quoted(text); }

template <class Argument>
void write(std::ostream& out, const Argument& argument) {
  if constexpr (std::is_convertible_v<const Argument&, std::string_view>) {
    write(out, std::string_view(argument));
  } else if constexpr (std::ranges::range<Argument>) {
    out << '[';
    bool first = true;
    for (const auto& part : argument) {
      if (!first) out << ',';
      first = false;
      write(out, part);
    }
    out << ']';
  } else if constexpr (std::is_floating_point_v<Argument>) {
    out << exact(argument);
  } else {
    static_assert(std::is_integral_v<Argument>);
    out << +argument;
  }
}

}  // namespace call_text_internal

// An operation with its arguments (numbers, text, and lists of them), "padded_batch(2,0,-0.5,[[4]])": what differs in
// one of them differs in its text.
template <class First, class... Arguments>
std::string call_text(std::string_view op, const First& first, const Arguments&... arguments) {
  std::ostringstream out;
  out << op << '(';
  call_text_internal::write(out, first);
  ((out << ',', call_text_internal::write(out, arguments)), ...);
  out << ')';
  return out.str();
}

}  // namespace tutti::data::graph
