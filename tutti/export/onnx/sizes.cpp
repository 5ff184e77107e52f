#include "tutti/export/onnx/sizes.h"

#include <algorithm>

#include "tutti/core/error.h"

namespace tutti::saved_model::onnx {

Operand Sizes::unknown(size_t number) {
  std::optional<Operand>& size = unknown_[number];
  for (const Place& place : program_.sizes[number]) {
    if (size) break;
    const std::optional<Operand> shows = value_of_(place.value);
    if (!shows) continue;
    const int64_t axis = place.axis;
    size = graph_.node("Shape", {*shows}, {{"start", axis}, {"end", axis + 1}}).as(at::kLong);
  }
  if (!size) throw Error(ErrorCode::unimplemented, "with the size of text, which no tensor that it takes has");
  return *size;
}

Operand Sizes::one(const Integer& integer) {
  std::optional<Operand> sum;
  const auto add = [&](const Operand& term) { sum = sum ? graph_.node("Add", {*sum, term}) : term; };
  for (const Integer::Term& term : integer.terms) {
    Operand product = unknown(static_cast<size_t>(term.sizes[0]));
    if (term.sizes.size() == 2) product = graph_.node("Mul", {product, unknown(static_cast<size_t>(term.sizes[1]))});
    if (term.factor != 1) product = graph_.node("Mul", {product, graph_.integers({term.factor})});
    add(product);
  }
  if (integer.constant || !sum) add(graph_.integers({integer.constant}));
  return *sum;
}

Operand Sizes::list(std::span<const Integer> integers) {
  if (std::ranges::all_of(integers, [](const Integer& integer) { return integer.terms.empty(); })) {
    std::vector<int64_t> constants;
    for (const Integer& integer : integers) constants.push_back(integer.constant);
    return graph_.integers(constants);
  }
  Operands parts;
  for (const Integer& integer : integers) parts.push_back(one(integer));
  return graph_.node("Concat", parts, {{"axis", int64_t{0}}});
}

std::optional<Operand> Sizes::of(const ValueType& type) {
  std::vector<Integer> sizes;
  for (const auto& size : type.sizes) {
    if (!size) return {};
    sizes.push_back(*size);
  }
  return list(sizes);
}

// An axis that stays is 0 in ONNX's words, and one of the others may be -1: so most shapes are constants.
Operand Sizes::reshape(const Operand& value, const ValueType& from, const ValueType& to) {
  std::vector<int64_t> constants;
  int num_inferred = 0;
  bool is_empty = false;
  for (size_t axis = 0; axis < to.rank(); ++axis) {
    const auto constant = constant_of(to.sizes[axis]);
    const bool stays = axis < from.rank() && to.sizes[axis] && from.sizes[axis] == to.sizes[axis];
    is_empty |= constant == 0;
    constants.push_back(constant ? *constant : stays ? 0 : -1);
    num_inferred += constants.back() == -1;
  }
  if (num_inferred <= 1 && !is_empty) return graph_.node("Reshape", {value, graph_.integers(constants)});
  const std::optional<Operand> shape = of(to);
  if (!shape)
    throw Error(ErrorCode::unimplemented,
                "to sizes of which two follow from the inputs' in a way that ONNX is not told");
  return graph_.node("Reshape", {value, *shape}, {{"allowzero", int64_t{1}}});
}

}  // namespace tutti::saved_model::onnx
