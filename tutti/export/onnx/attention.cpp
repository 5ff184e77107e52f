#include <cmath>
#include <limits>

#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

Operand size_of(const C& c, const char* name, size_t axis) {
  const auto& size = c.type(name).sizes[axis];
  if (!size) c.refuse("of a length that follows from the inputs' in a way that ONNX is not told");
  return c.sizes.one(*size);
}

// What is as the last axes of two tensors: ones where a query sees a key.
Operand causal_mask(const C& c) {
  const size_t last = c.rank("query") - 2;
  const Operand shape = c.node("Concat", {size_of(c, "query", last), size_of(c, "key", last)}, {{"axis", int64_t{0}}});
  const Operand ones = c.node("Expand", {c.graph.integer(1, at::kLong), shape});
  return c.graph.cast(c.node("Trilu", {ones}, {{"upper", int64_t{0}}}), at::kBool);
}

// softmax(query key^T scale + mask) value. Where a query sees no key at all, LibTorch gives zeros.
Operands attention(const C& c) {
  if (c.number("dropout_p", 0) != 0) c.refuse("with dropout, which draws random numbers; call eval() before");
  const size_t rank = c.rank("query");
  if (c.flag("enable_gqa")) c.refuse("with 'enable_gqa'");
  const Operand query = c.tensor("query", arithmetic(c.result().dtype)), key = c.tensor("key", query.dtype);
  const auto depth = constant_of(c.type("query").sizes[rank - 1]);
  if (!c.has("scale") && !depth) c.refuse("of a depth that is not known");
  const double scale = c.has("scale") ? c.number("scale") : 1 / std::sqrt(static_cast<double>(*depth));
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < c.rank("key"); ++axis) axes.push_back(static_cast<int64_t>(axis));
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  const Operand scaled = c.node("Mul", {query, c.number_like(scale, query)});
  Operand scores = c.node("MatMul", {scaled, c.graph.transpose(key, axes)});
  const Operand none = c.number_like(-std::numeric_limits<double>::infinity(), scores);
  const auto hide = [&](const Operand& mask) { scores = c.node("Where", {mask, scores, none}).as(scores.dtype); };
  const bool has_mask = c.has("attn_mask");
  if (has_mask && c.type("attn_mask").dtype == at::kBool)
    hide(c.tensor("attn_mask"));
  else if (has_mask)
    scores = c.node("Add", {scores, c.tensor("attn_mask", scores.dtype)});
  if (c.flag("is_causal")) hide(causal_mask(c));
  Operand weights = c.node("Softmax", {scores}, {{"axis", int64_t{-1}}});
  if (has_mask) {
    const Operand is_hidden = c.node("Equal", {scores, none}).as(at::kBool);
    weights = c.node("Where", {is_hidden, c.number_like(0, weights), weights}).as(scores.dtype);
  }
  return {c.node("MatMul", {weights, c.tensor("value", query.dtype)})};
}

constexpr NamedLowering kAttention[] = {
    {"scaled_dot_product_attention", attention},
};

}  // namespace

std::span<const NamedLowering> attention_lowerings() { return kAttention; }

}  // namespace tutti::saved_model::onnx
