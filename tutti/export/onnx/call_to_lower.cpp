#include "tutti/export/onnx/call_to_lower.h"

#include <ATen/native/TypeProperties.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::saved_model::onnx {
namespace {

using Kind = Argument::Kind;

void promote(at::ScalarType& dtype, at::ScalarType with) {
  dtype = dtype == at::ScalarType::Undefined ? with : c10::promoteTypes(dtype, with);
}

}  // namespace

at::ScalarType widened(at::ScalarType dtype) { return dtype == at::kBFloat16 ? at::kFloat : dtype; }

at::ScalarType arithmetic(at::ScalarType dtype) {
  switch (dtype) {
    case at::kBool:
    case at::kByte:
    case at::kChar:
    case at::kShort: return at::kInt;
    default: return widened(dtype);
  }
}

CallToLower::CallToLower(Graph& graph, Sizes& sizes, const Call& call, std::span<const ValueType> types,
                         std::span<const std::optional<Operand>> values)
    : graph(graph), sizes(sizes), call_(call), types_(types), values_(values) {
  for (const Call::Result& result : call.results)
    results_.insert(results_.end(), result.values.begin(), result.values.end());
}

void CallToLower::refuse(const std::string& what) const { throw Error(ErrorCode::unimplemented, what); }

const Argument* CallToLower::find(const char* name) const {
  const auto found = std::ranges::find(call_.arguments, name, &Call::NamedArgument::name);
  return found == call_.arguments.end() ? nullptr : &found->argument;
}

const Argument& CallToLower::given(const char* name) const {
  if (const Argument* const found = find(name)) return *found;
  refuse(str("without the argument '", name, "'"));
}

bool CallToLower::has(const char* name) const {
  const Argument* const found = find(name);
  return found && found->kind != Kind::none && !(found->kind == Kind::value && found->values[0] < 0);
}

const ValueType& CallToLower::type(const char* name) const {
  const Argument& argument = given(name);
  if (argument.kind != Kind::value || argument.values[0] < 0) refuse(str("with '", name, "' that is no tensor"));
  return types_[static_cast<size_t>(argument.values[0])];
}

Operand CallToLower::tensor(const char* name) const {
  if (!type(name).is_known()) refuse(str("with '", name, "' of a rank that depends on sizes"));
  const auto& value = values_[static_cast<size_t>(given(name).values[0])];
  if (!value) refuse(str("with '", name, "' that has no form in ONNX, be it text or a result that is left out"));
  return *value;
}

std::vector<std::optional<Operand>> CallToLower::items(const char* name) const {
  std::vector<std::optional<Operand>> all;
  for (const int number : given(name).values)
    all.push_back(number < 0 ? std::nullopt : values_[static_cast<size_t>(number)]);
  return all;
}

Operands CallToLower::tensors(const char* name) const {
  Operands all;
  for (const auto& item : items(name)) {
    if (!item) refuse(str("with '", name, "' of which one is undefined"));
    all.push_back(*item);
  }
  return all;
}

std::vector<const ValueType*> CallToLower::types(const char* name) const {
  std::vector<const ValueType*> all;
  for (const int number : given(name).values) {
    if (number < 0) refuse(str("with '", name, "' of which one is undefined"));
    all.push_back(&types_[static_cast<size_t>(number)]);
  }
  return all;
}

Operand CallToLower::operand(const char* name, at::ScalarType dtype) const {
  const Argument& argument = given(name);
  switch (argument.kind) {
    case Kind::value: return tensor(name, dtype);
    case Kind::number:
    case Kind::number_scalar: return graph.number(argument.numbers[0], dtype);
    case Kind::boolean:
    case Kind::integer:
    case Kind::integer_scalar:
      if (argument.integers[0].terms.empty()) return graph.integer(argument.integers[0].constant, dtype);
      return graph.cast(graph.squeeze(sizes.one(argument.integers[0]), {0}), dtype);
    default: refuse(str("with '", name, "' that is neither a tensor nor a number"));
  }
}

at::ScalarType CallToLower::common_dtype(std::initializer_list<const char*> names) const {
  at::native::ResultTypeState state;
  for (const char* const name : names) {
    if (!has(name)) continue;
    const Argument& argument = given(name);
    switch (argument.kind) {
      case Kind::value: promote(rank(name) ? state.dimResult : state.zeroResult, type(name).dtype); break;
      case Kind::number:
      case Kind::number_scalar: state = at::native::update_result_type_state(at::Scalar(0.5), state); break;
      case Kind::boolean: state = at::native::update_result_type_state(at::Scalar(true), state); break;
      default: state = at::native::update_result_type_state(at::Scalar(1), state);
    }
  }
  return at::native::result_type(state);
}

const ValueType& CallToLower::result(size_t i) const {
  if (i >= results_.size() || results_[i] < 0) refuse("without a result");
  return types_[static_cast<size_t>(results_[i])];
}

const std::vector<Integer>& CallToLower::symbolic(const char* name) const { return given(name).integers; }

std::vector<int64_t> CallToLower::integers(const char* name) const {
  std::vector<int64_t> constants;
  for (const Integer& integer : given(name).integers) {
    if (!integer.terms.empty()) refuse(str("with '", name, "' that depends on the inputs' sizes"));
    constants.push_back(integer.constant);
  }
  return constants;
}

int64_t CallToLower::integer(const char* name) const {
  const std::vector<int64_t> constants = integers(name);
  if (constants.size() != 1) refuse(str("with '", name, "' that is no integer"));
  return constants[0];
}

double CallToLower::number(const char* name) const {
  const Argument& argument = given(name);
  if (argument.kind == Kind::number || argument.kind == Kind::number_scalar) return argument.numbers[0];
  return static_cast<double>(integer(name));
}

std::string CallToLower::text(const char* name) const { return given(name).text; }

int64_t CallToLower::axis(const char* name, size_t rank) const {
  const int64_t axis = integer(name);
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

std::vector<int64_t> CallToLower::axes(const char* name, size_t rank) const {
  std::vector<int64_t> axes = integers(name);
  for (int64_t& axis : axes)
    if (axis < 0) axis += static_cast<int64_t>(rank);
  return axes;
}

}  // namespace tutti::saved_model::onnx
