// A case for each op that LibTorch tags as pointwise, in-place forms too, read from the schemas.
#include <ATen/core/dispatch/Dispatcher.h>

#include "rule_cases.h"

namespace tutti::rules {
namespace {

// The arguments of a call: tensors from `operands`, the schema's defaults, and 0.5 for other numbers.
std::optional<torch::jit::Stack> arguments_of(const c10::FunctionSchema& schema, const Tensors& operands) {
  torch::jit::Stack arguments;
  size_t next = 0;
  for (const auto& argument : schema.arguments()) {
    const auto kind = argument.real_type()->kind();
    if (kind == c10::TypeKind::TensorType) {
      if (next >= operands.size()) return {};
      arguments.emplace_back(operands[next++]);
    } else if (argument.default_value()) {
      arguments.push_back(*argument.default_value());
    } else if (kind == c10::TypeKind::NumberType) {
      arguments.emplace_back(operands[0].is_floating_point() ? at::Scalar(0.5) : at::Scalar(2));
    } else if (kind == c10::TypeKind::FloatType) {
      arguments.emplace_back(0.5);
    } else if (kind == c10::TypeKind::IntType) {
      arguments.emplace_back(int64_t{2});
    } else if (kind == c10::TypeKind::BoolType) {
      arguments.emplace_back(false);
    } else {
      arguments.emplace_back();
    }
  }
  return arguments;
}

Function calling(const c10::OperatorHandle& op) {
  return [op](const Tensors& t) -> Tensors {
    Tensors operands = t;
    const auto* alias = op.schema().arguments()[0].alias_info();
    if (alias && alias->isWrite()) operands[0] = t[0].clone();
    torch::jit::Stack stack = *arguments_of(op.schema(), operands);
    op.callBoxed(stack);
    Tensors results;
    for (const c10::IValue& value : stack) results.push_back(value.toTensor());
    return results;
  };
}

// Whether plain tensors take it, forward and backward.
bool runs(const RuleCase& rule_case, const Tensors& operands, bool backward) {
  try {
    Tensor sum = torch::zeros({});
    bool any = false;
    for (const Tensor& result : rule_case.function(operands))
      if (result.requires_grad()) {
        sum = sum + result.sum();
        any = true;
      }
    if (any && backward) sum.backward();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::optional<RuleCase> case_of(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  size_t tensors = 0;
  for (const auto& argument : op.schema().arguments())
    tensors += argument.real_type()->kind() == c10::TypeKind::TensorType;
  RuleCase result;
  result.name = "schema_" + name.name.substr(6) + "_" + name.overload_name;
  for (size_t i = 0; i < tensors; ++i) result.notation += i ? ",ij" : "ij";
  result.notation += "->ij";
  for (size_t i = 1; i < op.schema().returns().size(); ++i) result.notation += ",ij";
  result.function = calling(op);
  result.first_decides = name.name.back() == '_';
  result.max_layouts = 6;
  for (const Operand& operand :
       {fractions({5, 3}), constant(fractions({5, 3})), integers({5, 3}, 4), booleans({5, 3})}) {
    result.operands.assign(tensors, operand);
    Tensors plain;
    for (size_t i = 0; i < tensors; ++i) {
      Tensor value = torch::rand({5, 3}, torch::kDouble);
      if (operand.elements == Operand::Elements::integers) value = torch::randint(4, {5, 3}, torch::kLong);
      if (operand.elements == Operand::Elements::booleans) value = value > 0.5;
      if (operand.elements == Operand::Elements::fractions && operand.gradient) value.requires_grad_();
      plain.push_back(value);
    }
    if (runs(result, plain, operand.gradient)) return result;
  }
  return {};
}

}  // namespace

std::vector<RuleCase> pointwise_schema_cases() {
  std::vector<RuleCase> cases;
  std::string left_out;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || name.name.rfind("aten::", 0) != 0 || !op->hasTag(at::Tag::pointwise)) continue;
    const auto& arguments = op->schema().arguments();
    const auto is_out = [](const c10::Argument& argument) { return argument.is_out(); };
    if (std::any_of(arguments.begin(), arguments.end(), is_out) || name.name == "aten::equal") continue;
    if (name.name.rfind("aten::rrelu", 0) == 0) continue;  // draws random numbers
    if (auto found = case_of(*op))
      cases.push_back(std::move(*found));
    else
      left_out += " " + name.name + "." + name.overload_name;
  }
  std::printf("%zu pointwise ops of LibTorch's schemas; left out, because these operands do not suit them:%s\n",
              cases.size(), left_out.c_str());
  return cases;
}

}  // namespace tutti::rules
