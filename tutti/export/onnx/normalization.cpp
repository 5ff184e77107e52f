#include <limits>

#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

Operand given_or(const C& c, const char* name, const Operand& otherwise) {
  return c.has(name) ? c.tensor(name, otherwise.dtype) : otherwise;
}
Operand filled_like(const C& c, double value, const Operand& other) {
  return c.node("Expand", {c.number_like(value, other), c.shape_of(other)});
}
Attribute epsilon(const C& c) { return {"epsilon", static_cast<float>(c.number("eps"))}; }

// By the running statistics.
Operands batch_norm(const C& c) {
  const at::ScalarType dtype = arithmetic(c.result().dtype);
  if (c.flag("training") || !c.has("running_mean")) c.refuse("by the statistics of the batch; call eval() before");
  const Operand mean = c.tensor("running_mean", dtype);
  return {c.node("BatchNormalization",
                 {c.tensor("input", dtype), given_or(c, "weight", filled_like(c, 1, mean)),
                  given_or(c, "bias", filled_like(c, 0, mean)), mean, c.tensor("running_var", dtype)},
                 {epsilon(c)})};
}

Operands layer_norm(const C& c) {
  const Operand x = c.tensor("input", arithmetic(c.result().dtype));
  const std::vector<int64_t> shape = c.integers("normalized_shape");
  const Operand ones = c.node("Expand", {c.number_like(1, x), c.graph.integers(shape)});
  Operands inputs = {x, given_or(c, "weight", ones)};
  if (c.has("bias")) inputs.push_back(c.tensor("bias", x.dtype));
  return {c.node("LayerNormalization", inputs, {{"axis", -static_cast<int64_t>(shape.size())}, epsilon(c)})};
}

// A weight of each channel, beside values whose axis 1 they are.
Operand along_channels(const C& c, const Operand& weight) {
  std::vector<int64_t> sizes(c.rank("input") - 1, 1);
  sizes[0] = -1;
  return c.node("Reshape", {weight, c.graph.integers(sizes)});
}

// The groups are normalized as the channels of an instance are.
Operands group_norm(const C& c) {
  const Operand x = c.tensor("input", arithmetic(c.result().dtype));
  const int64_t num_groups = c.integer("num_groups");
  const Operand groups = c.node("Reshape", {x, c.graph.integers({0, num_groups, -1})});
  const auto of_groups = [&](double value) {
    return c.node("Expand", {c.number_like(value, x), c.graph.integers({num_groups})});
  };
  const Operand normal = c.node("InstanceNormalization", {groups, of_groups(1), of_groups(0)}, {epsilon(c)});
  Operand y = c.node("Reshape", {normal, c.shape_of(x)});
  if (c.has("weight")) y = c.node("Mul", {y, along_channels(c, c.tensor("weight", x.dtype))});
  if (c.has("bias")) y = c.node("Add", {y, along_channels(c, c.tensor("bias", x.dtype))});
  return {y};
}

Operands instance_norm(const C& c) {
  if (!c.flag("use_input_stats")) return batch_norm(c);
  const Operand x = c.tensor("input", arithmetic(c.result().dtype));
  const auto num_channels = constant_of(c.type("input").sizes[1]);
  if (!num_channels) c.refuse("of channels whose number is not known");
  const auto of_channels = [&](double value) {
    return c.node("Expand", {c.number_like(value, x), c.graph.integers({*num_channels})});
  };
  return {c.node("InstanceNormalization",
                 {x, given_or(c, "weight", of_channels(1)), given_or(c, "bias", of_channels(0))}, {epsilon(c)})};
}

double epsilon_of(at::ScalarType dtype) {
  return dtype == at::kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

// x / sqrt(mean(x^2) + eps) weight
Operands rms_norm(const C& c) {
  const Operand x = c.tensor("input", arithmetic(c.result().dtype));
  const auto num_axes = static_cast<int64_t>(c.integers("normalized_shape").size());
  std::vector<int64_t> axes;
  for (int64_t axis = -num_axes; axis < 0; ++axis) axes.push_back(axis);
  const Operand squares = c.node("ReduceMean", {c.node("Mul", {x, x})}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  const Operand sum = c.node("Add", {squares, c.number_like(c.number("eps", epsilon_of(x.dtype)), x)});
  const Operand y = c.node("Div", {x, c.node("Sqrt", {sum})});
  return {c.has("weight") ? c.node("Mul", {y, c.tensor("weight", x.dtype)}) : y};
}

// Nothing is drawn where it is not training.
Operands dropout(const C& c) {
  if (c.flag("train")) c.refuse("as in training, which draws random numbers; call eval() before");
  return {c.tensor(c.takes("input") ? "input" : "self")};
}

constexpr NamedLowering kNormalizations[] = {
    {"batch_norm", batch_norm},       {"layer_norm", layer_norm}, {"group_norm", group_norm},
    {"instance_norm", instance_norm}, {"rms_norm", rms_norm},     {"dropout", dropout},
    {"feature_dropout", dropout},     {"alpha_dropout", dropout}, {"feature_alpha_dropout", dropout},
};

}  // namespace

std::span<const NamedLowering> normalization_lowerings() { return kNormalizations; }

}  // namespace tutti::saved_model::onnx
