#include "tutti/export/program.h"

#include "tutti/core/error.h"

namespace tutti::saved_model {

int64_t value_of(const Integer& integer, const std::vector<int64_t>& sizes) {
  int64_t sum = integer.constant;
  for (const Integer::Term& term : integer.terms) {
    int64_t product = term.factor;
    bool fits = true;
    for (const int size : term.sizes)
      fits &= !__builtin_mul_overflow(product, sizes[static_cast<size_t>(size)], &product);
    if (!fits || __builtin_add_overflow(sum, product, &sum))
      throw Error(ErrorCode::invalid_argument, "saved_model: a size that follows from the inputs' is above 2^63");
  }
  return sum;
}

std::vector<int> operands_of(const Call& call) {
  std::vector<int> operands;
  for (const auto& [name, argument] : call.arguments)
    for (const int value : argument.values)
      if (value >= 0) operands.push_back(value);
  return operands;
}

bool makes_memory_without_value(const Call& call) {
  return call.op.starts_with("aten::empty") || call.op.starts_with("aten::new_empty");
}

}  // namespace tutti::saved_model
