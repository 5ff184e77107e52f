#include "tutti/export/onnx/graph.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::saved_model::onnx {
namespace {

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

int32_t data_type_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: return 1;
    case at::kByte: return 2;
    case at::kChar: return 3;
    case at::kUInt16: return 4;
    case at::kShort: return 5;
    case at::kInt: return 6;
    case at::kLong: return 7;
    case at::kBool: return 9;
    case at::kHalf: return 10;
    case at::kDouble: return 11;
    case at::kUInt32: return 12;
    case at::kUInt64: return 13;
    case at::kBFloat16: return 16;
    default:
      throw Error(ErrorCode::unimplemented,
                  str("saved_model: tensors of dtype ", at::toString(dtype), " can't be written as ONNX"));
  }
}

std::string Graph::unique(const std::string& wanted) {
  std::string name = wanted;
  while (!names_.insert(name).second) name = str(wanted, '_', ++counters_[wanted]);
  return name;
}

void Graph::reserve(const std::string& name) {
  if (!names_.insert(name).second)
    throw Error(ErrorCode::invalid_argument,
                str("saved_model: '", model_.name, "' has two inputs and outputs named '", name,
                    "', which are one thing in ONNX; give one of them another name"));
}

Operand Graph::input(const std::string& name, at::ScalarType dtype, Dims dims) {
  model_.inputs.push_back({name, data_type_of(dtype), std::move(dims)});
  return {name, dtype};
}

// A result of a node may have only one name, and an input or a weight keeps its own.
void Graph::output(const std::string& name, const Operand& value, Dims dims) {
  model_.nodes.push_back({"Identity", {value.name}, {name}, {}});
  model_.outputs.push_back({name, data_type_of(value.dtype), std::move(dims)});
}

Operand Graph::initializer(const std::string& name, const Tensor& value, std::optional<FilePlace> place) {
  const Operand made{unique(name), value.scalar_type()};
  kept_.push_back(value.detach().contiguous());
  model_.initializers.push_back(
      {made.name, data_type_of(made.dtype), value.sizes().vec(), bytes_of(kept_.back()), std::move(place)});
  return made;
}

Operand Graph::node(const char* op, const Operands& inputs, Attributes attributes) {
  return node(op, inputs, std::move(attributes), 1)[0];
}

Operands Graph::node(const char* op, const Operands& inputs, Attributes attributes, size_t num_results) {
  Node made{.op = op, .inputs = {}, .outputs = {}, .attributes = std::move(attributes)};
  for (const Operand& input : inputs) made.inputs.push_back(input.name);
  while (!made.inputs.empty() && made.inputs.back().empty()) made.inputs.pop_back();
  Operands results;
  for (size_t i = 0; i < num_results; ++i) results.push_back({unique(op), inputs.at(0).dtype});
  for (const Operand& result : results) made.outputs.push_back(result.name);
  model_.nodes.push_back(std::move(made));
  return results;
}

Operand Graph::constant(const Tensor& value) {
  const Tensor dense = value.contiguous();
  const auto bytes = bytes_of(dense);
  const std::string key = str(at::toString(dense.scalar_type()), str_list(dense.sizes()), ' ') +
                          std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Operand& known = constants_[key];
  if (known.name.empty()) known = initializer("constant", dense, {});
  return known;
}

Operand Graph::integers(const std::vector<int64_t>& values) { return constant(at::tensor(values, at::kLong)); }
Operand Graph::number(double value, at::ScalarType dtype) { return constant(at::scalar_tensor(value, dtype)); }
Operand Graph::integer(int64_t value, at::ScalarType dtype) { return constant(at::scalar_tensor(value, dtype)); }

Operand Graph::cast(const Operand& value, at::ScalarType dtype) {
  if (value.dtype == dtype) return value;
  return node("Cast", {value}, {{"to", int64_t{data_type_of(dtype)}}}).as(dtype);
}

Model Graph::finish() {
  std::set<std::string> needed;
  for (const ValueInfo& output : model_.outputs) needed.insert(output.name);
  std::vector<Node> nodes;
  for (size_t i = model_.nodes.size(); i-- > 0;) {
    Node& node = model_.nodes[i];
    if (std::ranges::none_of(node.outputs, [&](const std::string& name) { return needed.contains(name); })) continue;
    needed.insert(node.inputs.begin(), node.inputs.end());
    nodes.push_back(std::move(node));
  }
  std::ranges::reverse(nodes);
  model_.nodes = std::move(nodes);
  std::erase_if(model_.initializers, [&](const Initializer& one) { return !needed.contains(one.name); });
  return std::move(model_);
}

}  // namespace tutti::saved_model::onnx
