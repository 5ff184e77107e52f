#include "tutti/export/pt2/symbolic_size.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/export/pt2/json_parts.h"
#include "tutti/export/size_fit.h"

namespace tutti::saved_model::pt2 {
namespace {

std::string symbol(int size) { return str("Symbol('", symbol_name(size), "', integer=True, positive=True)"); }

// "Mul(a, b)"; of one operand that alone.
std::string applied(std::string_view function, const std::vector<std::string>& operands) {
  std::string text;
  for (const std::string& operand : operands) text += str(text.empty() ? "" : ", ", operand);
  return operands.size() == 1 ? text : str(function, '(', text, ')');
}

std::vector<int64_t> sample_sizes(const Integer& integer) {
  int last = 0;
  for (const Integer::Term& term : integer.terms)
    for (const int size : term.sizes) last = std::max(last, size);
  std::vector<int64_t> sizes;
  for (int size = 0; size <= last; ++size) sizes.push_back(sample_size(size));
  return sizes;
}

}  // namespace

std::string symbol_name(int size) { return str('s', size); }

int64_t sample_size(int size) { return SizePoints::base(static_cast<size_t>(size)); }

SymbolicSize constant_size(int64_t value) { return {str("Integer(", value, ')'), value, true}; }

SymbolicSize size_of(const Integer& integer) {
  if (integer.terms.empty()) return constant_size(integer.constant);
  std::vector<std::string> summands;
  for (const Integer::Term& term : integer.terms) {
    std::vector<std::string> factors;
    if (term.factor != 1) factors.push_back(constant_size(term.factor).expression);
    for (const int size : term.sizes) factors.push_back(symbol(size));
    summands.push_back(applied("Mul", factors));
  }
  if (integer.constant) summands.push_back(constant_size(integer.constant).expression);
  return {applied("Add", summands), value_of(integer, sample_sizes(integer)), false};
}

SymbolicSize unbacked_size(int number) { return {str("Symbol('u", number, "', integer=True)")}; }

SymbolicSize operator*(const SymbolicSize& a, const SymbolicSize& b) {
  if (a.is_constant && b.is_constant) return constant_size(*a.value * *b.value);
  if (a.is_constant && a.value == 1) return b;
  if (b.is_constant && b.value == 1) return a;
  SymbolicSize product{applied("Mul", {a.expression, b.expression})};
  if (a.value && b.value) product.value = *a.value * *b.value;
  return product;
}

std::string json_size(const SymbolicSize& size) {
  if (size.is_constant) return json_kind("as_int", json_integer(*size.value));
  const std::string hint = size.value ? json_kind("as_int", json_integer(*size.value)) : "null";
  return json_kind("as_expr", json_object({{"expr_str", json_text(size.expression)}, {"hint", hint}}));
}

}  // namespace tutti::saved_model::pt2
