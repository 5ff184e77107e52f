#include "tutti/export/runner.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/List.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/export/allowed_ops.h"

namespace tutti::saved_model {
namespace {

using Kind = Argument::Kind;

// What a type is but for that it may be missing.
c10::TypePtr required(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::OptionalType ? type->expectRef<c10::OptionalType>().getElementType() : type;
}

bool takes(const c10::TypePtr& type, const Argument& argument) {
  if (argument.kind == Kind::none)
    return type->kind() == c10::TypeKind::OptionalType || type->kind() == c10::TypeKind::TensorType;
  const c10::TypePtr wanted = required(type);
  const auto is_tensors = [&] { return required(wanted->expectRef<c10::ListType>().getElementType())->kind(); };
  const bool is_list = wanted->kind() == c10::TypeKind::ListType;
  const auto kind = is_list ? is_tensors() : wanted->kind();
  const bool is_number = kind == c10::TypeKind::NumberType && !is_list;
  switch (argument.kind) {
    case Kind::none: return true;
    case Kind::value:
    case Kind::integer_scalar:
    case Kind::number_scalar: return !is_list && kind == c10::TypeKind::TensorType;
    case Kind::values: return is_list && kind == c10::TypeKind::TensorType;
    case Kind::boolean: return (!is_list && kind == c10::TypeKind::BoolType) || is_number;
    case Kind::booleans: return is_list && kind == c10::TypeKind::BoolType;
    case Kind::integer:
      return (!is_list && (kind == c10::TypeKind::IntType || kind == c10::TypeKind::SymIntType)) || is_number;
    case Kind::integers: return is_list && (kind == c10::TypeKind::IntType || kind == c10::TypeKind::SymIntType);
    case Kind::number: return (!is_list && kind == c10::TypeKind::FloatType) || is_number;
    case Kind::numbers: return is_list && kind == c10::TypeKind::FloatType;
    case Kind::text: return !is_list && kind == c10::TypeKind::StringType;
    case Kind::device: return !is_list && kind == c10::TypeKind::DeviceObjType;
  }
  return false;
}

std::vector<int64_t> sizes_of(const Value& value) {
  return value.is_text() ? value.text().shape() : value.tensor().sizes().vec();
}

Tensor wrapped(const at::Scalar& number, at::Device device) {
  return at::native::wrapped_scalar_tensor(number, device);
}

c10::List<at::Tensor> tensors_of(const Argument& argument, const std::vector<Value>& values) {
  c10::List<at::Tensor> list;
  for (const int value : argument.values)
    list.push_back(value < 0 ? Tensor() : values[static_cast<size_t>(value)].tensor());
  return list;
}

c10::List<std::optional<at::Tensor>> optional_tensors_of(const Argument& argument, const std::vector<Value>& values) {
  c10::List<std::optional<at::Tensor>> list;
  for (const int value : argument.values)
    list.push_back(value < 0 ? std::nullopt : std::optional(values[static_cast<size_t>(value)].tensor()));
  return list;
}

}  // namespace

Runner::Runner(Program program, std::vector<Tensor> variables, std::vector<Step> steps, at::Device device,
               const std::string& source, InputCheck check_inputs)
    : program_(std::move(program)),
      variables_(std::move(variables)),
      steps_(std::move(steps)),
      device_(device),
      check_inputs_(std::move(check_inputs)) {
  size_t num_steps = 0;
  for (const Call& call : program_.calls) calls_.push_back(prepare(call, num_steps, source));
  find_last_uses();
}

Runner::PreparedCall Runner::prepare(const Call& call, size_t& num_steps, const std::string& source) const {
  if (call.is_step) return {.step = num_steps++};
  const auto fail = [&](ErrorCode code, const std::string& what) {
    throw Error(code, str(source, ": the signature '", program_.name, "' calls ", call.op, ", ", what));
  };
  const size_t dot = call.op.find('.');
  const c10::OperatorName name(call.op.substr(0, dot), dot == std::string::npos ? "" : call.op.substr(dot + 1));
  PreparedCall prepared{.op = c10::Dispatcher::singleton().findSchema(name)};
  if (!prepared.op) fail(ErrorCode::unimplemented, "which this LibTorch does not have");
  const c10::FunctionSchema& schema = prepared.op->schema();
  if (const std::string why = why_refused(schema); !why.empty())
    fail(ErrorCode::unimplemented, "which no saved model may call: " + why);
  prepared.makes_tensors = std::ranges::none_of(schema.arguments(), [](const c10::Argument& argument) {
    return argument.type()->str().find("Tensor") != std::string::npos;
  });
  size_t num_found = 0;
  for (const c10::Argument& wanted : schema.arguments()) {
    const auto found = std::ranges::find(call.arguments, wanted.name(), &Call::NamedArgument::name);
    if (found == call.arguments.end()) {
      if (!wanted.default_value()) fail(ErrorCode::data_loss, str("without the argument '", wanted.name(), "'"));
      prepared.arguments.push_back(nullptr);
      continue;
    }
    ++num_found;
    if (!takes(wanted.type(), found->argument))
      fail(ErrorCode::data_loss, str("with another kind of argument '", wanted.name(), "' than it takes"));
    prepared.arguments.push_back(&found->argument);
  }
  if (num_found != call.arguments.size()) fail(ErrorCode::unimplemented, "with an argument that it does not know");
  if (call.results.size() != schema.returns().size()) fail(ErrorCode::data_loss, "with another number of results");
  for (size_t i = 0; i < call.results.size(); ++i)
    if (call.results[i].is_list != (schema.returns()[i].type()->kind() == c10::TypeKind::ListType))
      fail(ErrorCode::data_loss, "with a list of results where it gives one, or one for a list");
  return prepared;
}

void Runner::find_last_uses() {
  num_values_ = program_.num_given();
  for (const Call& call : program_.calls)
    for (const Call::Result& result : call.results)
      for (const int value : result.values) num_values_ = std::max(num_values_, value + 1);
  std::vector<bool> used(static_cast<size_t>(num_values_));
  for (const auto& output : program_.outputs) used[static_cast<size_t>(output.value)] = true;
  for (const auto& places : program_.sizes)
    for (const Place& place : places) used[static_cast<size_t>(place.value)] = true;
  for (size_t i = calls_.size(); i-- > 0;) {
    const auto use = [&](int value) {
      if (value < 0 || used[static_cast<size_t>(value)]) return;
      used[static_cast<size_t>(value)] = true;
      calls_[i].last_uses.push_back(value);
    };
    for (const int value : operands_of(program_.calls[i])) use(value);
    for (const Call::Result& result : program_.calls[i].results)
      for (const int value : result.values) use(value);
  }
}

void Runner::check(const std::vector<Value>& inputs) const {
  const auto fail = [&](const Spec& spec, const std::string& seen) {
    throw Error(ErrorCode::invalid_argument, str("saved_model: the input '", spec.name, "' of '", program_.name,
                                                 "' is ", seen, "; ", to_string(spec), " is required"));
  };
  if (inputs.size() != program_.inputs.size())
    throw Error(ErrorCode::invalid_argument, str("saved_model: '", program_.name, "' got ", inputs.size(),
                                                 " inputs; it has ", program_.inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Spec& spec = program_.inputs[i];
    if (inputs[i].is_text() != spec.is_text) fail(spec, inputs[i].is_text() ? "text" : "a tensor");
    if (!spec.is_text && !inputs[i].tensor().defined()) fail(spec, "undefined");
    if (!spec.is_text && inputs[i].tensor().scalar_type() != spec.dtype)
      fail(spec, str("of dtype ", at::toString(inputs[i].tensor().scalar_type())));
    const std::vector<int64_t> sizes = sizes_of(inputs[i]);
    const auto fits = [](int64_t size, int64_t wanted) { return wanted == kUnknown || size == wanted; };
    if (!std::ranges::equal(sizes, spec.shape, fits)) fail(spec, str("of shape ", str_list(sizes)));
  }
  if (check_inputs_) check_inputs_(inputs);
}

std::vector<Value> Runner::run(const std::vector<Value>& inputs) const {
  check(inputs);
  std::vector<Value> values = inputs;
  values.insert(values.end(), variables_.begin(), variables_.end());
  values.resize(static_cast<size_t>(num_values_));
  std::vector<int64_t> sizes(program_.sizes.size(), kUnknown);
  const auto take_sizes = [&](int first, int end) {
    for (size_t i = 0; i < sizes.size(); ++i)
      for (const Place& place : program_.sizes[i]) {
        if (place.value < first || place.value >= end) continue;
        const std::vector<int64_t> seen = sizes_of(values[static_cast<size_t>(place.value)]);
        const int64_t size = static_cast<size_t>(place.axis) < seen.size() ? seen[static_cast<size_t>(place.axis)] : -1;
        if (sizes[i] == kUnknown) sizes[i] = size;
        if (size < 0 || sizes[i] != size)
          throw Error(ErrorCode::invalid_argument, str("saved_model: '", program_.name, "' got inputs of ", sizes[i],
                                                       " and of ", size, " where it wants one size, as a batch has"));
      }
  };
  int num_known = program_.num_given();
  take_sizes(0, num_known);
  for (size_t i = 0; i < calls_.size(); ++i) {
    call(program_.calls[i], calls_[i], sizes, values);
    const int first = num_known;
    for (const Call::Result& result : program_.calls[i].results)
      for (const int value : result.values) num_known = std::max(num_known, value + 1);
    take_sizes(first, num_known);
    for (const int value : calls_[i].last_uses) values[static_cast<size_t>(value)] = Value();
  }
  std::vector<Value> outputs;
  for (const auto& output : program_.outputs) outputs.push_back(values[static_cast<size_t>(output.value)]);
  return outputs;
}

c10::IValue Runner::argument(const Argument& argument, const c10::Argument& schema, const std::vector<int64_t>& sizes,
                             const std::vector<Value>& values) const {
  const auto integer = [&](const Integer& number) { return value_of(number, sizes); };
  switch (argument.kind) {
    case Kind::none: return schema.type()->kind() == c10::TypeKind::TensorType ? c10::IValue(Tensor()) : c10::IValue();
    case Kind::value: return values[static_cast<size_t>(argument.values[0])].tensor();
    case Kind::values: {
      const auto element = required(schema.type())->expectRef<c10::ListType>().getElementType();
      if (element->kind() == c10::TypeKind::OptionalType) return optional_tensors_of(argument, values);
      return tensors_of(argument, values);
    }
    case Kind::boolean: return argument.integers[0].constant != 0;
    case Kind::integer: return integer(argument.integers[0]);
    case Kind::number: return argument.numbers[0];
    case Kind::numbers: return argument.numbers;
    case Kind::text: return argument.text;
    case Kind::device: return device_;
    case Kind::integer_scalar: return wrapped(integer(argument.integers[0]), device_);
    case Kind::number_scalar: return wrapped(argument.numbers[0], device_);
    case Kind::integers: {
      std::vector<int64_t> numbers;
      for (const Integer& number : argument.integers) numbers.push_back(integer(number));
      return numbers;
    }
    case Kind::booleans: {
      c10::List<bool> flags;
      for (const Integer& flag : argument.integers) flags.push_back(flag.constant != 0);
      return flags;
    }
  }
  return {};
}

void Runner::call(const Call& call, const PreparedCall& prepared, const std::vector<int64_t>& sizes,
                  std::vector<Value>& values) const {
  if (!prepared.op) {
    std::vector<Value> inputs;
    for (const int value : operands_of(call)) inputs.push_back(values[static_cast<size_t>(value)]);
    Value result = steps_[prepared.step](inputs);
    if (!result.is_text() && !device_.is_cpu()) result = result.tensor().to(device_);
    values[static_cast<size_t>(call.results[0].values[0])] = std::move(result);
    return;
  }
  const auto& arguments = prepared.op->schema().arguments();
  torch::jit::Stack stack;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument* const given = prepared.arguments[i];
    stack.push_back(given ? argument(*given, arguments[i], sizes, values) : *arguments[i].default_value());
    if (prepared.makes_tensors && arguments[i].name() == "device" && stack.back().isNone()) stack.back() = device_;
  }
  prepared.op->callBoxed(stack);
  for (size_t i = 0; i < call.results.size(); ++i) {
    const std::vector<int>& numbers = call.results[i].values;
    const auto set = [&](int number, const Tensor& tensor) {
      if (number >= 0) values[static_cast<size_t>(number)] = tensor;
    };
    if (!call.results[i].is_list) {
      set(numbers[0], stack[i].toTensor());
      continue;
    }
    const std::vector<Tensor> tensors = stack[i].toTensorVector();
    if (tensors.size() != numbers.size())
      throw Error(ErrorCode::invalid_argument, str("saved_model: ", call.op, " of '", program_.name, "' gave ",
                                                   tensors.size(), " tensors where ", numbers.size(), " are required"));
    for (size_t k = 0; k < numbers.size(); ++k) set(numbers[k], tensors[k]);
  }
}

}  // namespace tutti::saved_model
