#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/export/program.h"

namespace tutti::saved_model::pt2 {

// An extent as torch.export knows it: a number, or an expression of sympy's. The unknown sizes of a program are its
// symbols s0, s1 and so on.
struct SymbolicSize {
  std::string expression;             // "Mul(Integer(2), Symbol('s0', integer=True, positive=True))"
  std::optional<int64_t> value = {};  // for the sample inputs; nothing where that is not known
  bool is_constant = false;
};

std::string symbol_name(int size);  // "s0"
// The value that an unknown size has in the sample inputs: one at which the function was recorded.
int64_t sample_size(int size);

SymbolicSize constant_size(int64_t value);
SymbolicSize size_of(const Integer& integer);
// One that follows from values, or from the sizes in a way that programs do not have: a symbol of its own, u0, u1, ….
SymbolicSize unbacked_size(int number);
SymbolicSize operator*(const SymbolicSize& a, const SymbolicSize& b);

// {"as_int": 3}, or {"as_expr": …}.
std::string json_size(const SymbolicSize& size);

}  // namespace tutti::saved_model::pt2
