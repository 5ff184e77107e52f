#include "tutti/export/recording.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/List.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/core/tensor_version.h"
#include "tutti/export/allowed_ops.h"
#include "tutti/export/literals.h"
#include "tutti/export/public_form.h"
#include "tutti/export/step_samples.h"
#include "tutti/export/steps.h"
#include "tutti/tensor/alias.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::saved_model {
namespace {

using Kind = Argument::Kind;
using keras::layers::TensorOrText;

std::string op_name(const c10::OperatorHandle& op) {
  const auto& [name, overload] = op.operator_name();
  return overload.empty() ? name : name + '.' + overload;
}

constexpr int64_t kMark = 0xA5;  // each byte of memory that has no value yet

Tensor bytes_of_memory(const Tensor& tensor) {
  return at::empty({0}, tensor.options().dtype(at::kByte)).set_(tensor.storage());
}

bool has_mark(const Tensor& tensor) { return bytes_of_memory(tensor).eq(kMark).all().item<bool>(); }

// What has one answer for each dtype and rank; and what depends on sizes shows in the calls that follow.
bool asks_for_form(const std::string& op) {
  constexpr std::array<std::string_view, 14> kQuestions = {
      "result_type", "can_cast", "promote_types", "is_same_size", "is_complex", "is_floating_point", "is_signed",
      "is_neg",      "is_conj",  "is_inference",  "size",         "stride",     "sym_size",          "sym_stride"};
  return std::ranges::any_of(kQuestions, [&](std::string_view name) { return op == str("aten::", name); });
}

bool lies_alike(const Tensor& one, const Tensor& other) {
  return one.sizes() == other.sizes() && one.strides() == other.strides() &&
         one.storage_offset() == other.storage_offset() && one.scalar_type() == other.scalar_type() &&
         one.is_conj() == other.is_conj() && one.is_neg() == other.is_neg();
}

Argument integers_of(Kind kind, const std::vector<int64_t>& numbers) {
  Argument argument{.kind = kind};
  for (const int64_t number : numbers) argument.integers.push_back({number});
  return argument;
}

// What a step might have given whose result is as long as a text.
Value with_last_size(const Value& result, int64_t size) {
  std::vector<int64_t> sizes = result.is_text() ? result.text().shape() : result.tensor().sizes().vec();
  sizes.back() = size;
  if (!result.is_text()) return at::zeros(sizes, result.tensor().options());
  size_t count = 1;
  for (const int64_t extent : sizes) count *= static_cast<size_t>(extent);
  return Strings(std::vector<std::string>(count, "a"), sizes);
}

}  // namespace

void Recording::refuse(const std::string& what, ErrorCode code) const {
  throw Error(code, str("saved_model: the signature '", signature_, "' ", what));
}

Recorded Recording::run(const Function& function, const std::vector<Value>& inputs, Outputs& outputs) {
  num_inputs_ = inputs.size();
  for (const Value& input : inputs) {
    if (input.is_text()) {
      add(input.text());
    } else {
      add(input.tensor());
      input_versions_.emplace_back(input.tensor(), version_of(input.tensor()));
    }
  }
  const c10::NoGradGuard no_grad;
  {
    const OuterRecordGuard calls(this);
    const keras::layers::StepRecordGuard steps(this);
    outputs = function(inputs);
  }
  for (const auto& [name, output] : outputs)
    recorded_.outputs.push_back(output.is_text() ? number_of(output.text()) : number_of(output.tensor()));
  refuse_writes();
  recorded_.literals = find_literals(recorded_.calls, kept_);
  for (const Value& value : kept_) {
    const bool is_tensor = !value.is_text() && value.tensor().defined();
    recorded_.forms.push_back(is_tensor ? Recorded::Form{value.tensor().scalar_type(), value.tensor().sizes().vec()}
                                        : Recorded::Form{});
  }
  return std::move(recorded_);
}

int Recording::add(const Tensor& tensor) {
  kept_.emplace_back(tensor);
  const int number = static_cast<int>(kept_.size()) - 1;
  if (tensor.defined()) numbers_[tensor.unsafeGetTensorImpl()] = number;
  return number;
}

int Recording::add(const Strings& text) {
  kept_.emplace_back(text);
  return static_cast<int>(kept_.size()) - 1;
}

void Recording::add(Call call) {
  recorded_.calls.push_back(std::move(call));
  if (keeps_places_) recorded_.places.push_back(call_place());
}

// A tensor that LibTorch made of a known one without a call, by data() or variable_data(); -1: none.
int Recording::find_alias(const Tensor& tensor) const {
  if (!tensor.has_storage()) return -1;
  bool is_other_form = false;
  for (size_t i = kept_.size(); i-- > 0;) {
    if (kept_[i].is_text() || !are_aliases(kept_[i].tensor(), tensor)) continue;
    if (lies_alike(kept_[i].tensor(), tensor)) return static_cast<int>(i);
    is_other_form = true;
  }
  if (is_other_form) refuse("uses memory of one of its tensors in a form that no operation of LibTorch's has given");
  for (size_t i = 0; i < recorded_.variables.size(); ++i)
    if (are_aliases(recorded_.variables[i].tensor, tensor) && lies_alike(recorded_.variables[i].tensor, tensor))
      return kFirstVariable + static_cast<int>(i);
  return -1;
}

int Recording::capture(const Tensor& tensor, bool is_made) {
  const auto name = names_.find(tensor.unsafeGetTensorImpl());
  recorded_.variables.push_back({.tensor = tensor,
                                 .name = name == names_.end() ? std::string() : name->second,
                                 .is_made = is_made,
                                 .version = version_of(tensor)});
  const int number = kFirstVariable + static_cast<int>(recorded_.variables.size()) - 1;
  numbers_[tensor.unsafeGetTensorImpl()] = number;
  return number;
}

// Whoever first uses memory that had no value when it was made decides: where no byte of it has changed, calls will
// write to it, and the one that made it is recorded; else C++ gave it its value, and it is a constant.
void Recording::settle(const Tensor& tensor) {
  if (!tensor.has_storage()) return;
  const auto found = fresh_.extract(tensor.storage().unsafeGetStorageImpl());
  if (found.empty()) return;
  auto& [made, call] = found.mapped();
  if (!has_mark(made)) {
    capture(made, /*is_made=*/true);
    return;
  }
  call.results.push_back({.values = {add(made)}});
  add(std::move(call));
}

int Recording::number_of(const Tensor& tensor) {
  if (!tensor.defined()) return -1;
  settle(tensor);
  if (const auto found = numbers_.find(tensor.unsafeGetTensorImpl()); found != numbers_.end()) return found->second;
  if (const int alias = find_alias(tensor); alias >= 0) {
    kept_besides_.push_back(tensor);
    return numbers_[tensor.unsafeGetTensorImpl()] = alias;
  }
  return capture(tensor, /*is_made=*/false);
}

int Recording::number_of(const Strings& text) const {
  for (size_t i = kept_.size(); i-- > 0;)
    if (kept_[i].is_text() && kept_[i].text().values().data() == text.values().data()) {
      if (kept_[i].text().shape() == text.shape()) return static_cast<int>(i);
      refuse(str("gives a step text of shape ", str_list(text.shape()), " that it got in the shape ",
                 str_list(kept_[i].text().shape()), ", which cannot be saved yet; let the input have that shape"));
    }
  refuse(
      "uses text that is neither one of its inputs nor made by a preprocessing layer of tutti's: it would always be "
      "the same. Give it as an input");
}

void Recording::name_variable(const Tensor& variable, const std::string& name) {
  if (names_.try_emplace(variable.unsafeGetTensorImpl(), name).second) kept_besides_.push_back(variable);
}

void Recording::refuse_call(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& arguments) const {
  if (const std::string why = why_refused(schema); !why.empty())
    refuse(str("calls ", schema.name(), ", which cannot be saved: ", why,
               ". Express it by operations that take and return tensors, or leave it out of the signature's function"));
  if (at::autocast::is_autocast_enabled(at::kCPU))
    refuse(str("calls ", schema.name(),
               " under autocast or a mixed dtype policy, which cannot be saved yet; cast the "
               "tensors themselves"));
  if (schema.name() == "aten::one_hot" && arguments[1].toInt() < 0)
    refuse("calls one_hot without a number of classes, which then depends on the values of its inputs; give one");
  const auto is_given = [&](size_t i) { return arguments[i].isTensor() && arguments[i].toTensor().defined(); };
  const bool is_norm = schema.name() == "aten::batch_norm" || schema.name() == "aten::instance_norm";
  if (is_norm && is_given(3) && arguments[5].toBool())
    refuse(str("calls ", schema.name(),
               " as in training, which writes its running statistics; call eval() before, or "
               "call the layer without {.training = true}"),
           ErrorCode::failed_precondition);
}

Argument Recording::argument_of(const c10::IValue& value, const c10::Argument& schema) {
  const bool writes = schema.alias_info() && schema.alias_info()->isWrite();
  const auto operand = [&](const Tensor& tensor) {
    const int number = number_of(tensor);
    if (writes) refuse_write(tensor);
    return number;
  };
  if (value.isTensor()) {
    const Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return {};
    if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) return {.kind = Kind::value, .values = {operand(tensor)}};
    if (tensor.is_floating_point()) return {.kind = Kind::number_scalar, .numbers = {tensor.item().toDouble()}};
    if (tensor.scalar_type() != at::kLong)
      refuse(str("uses a ", at::toString(tensor.scalar_type()), " number as a tensor, which cannot be saved yet"));
    return integers_of(Kind::integer_scalar, {tensor.item().toLong()});
  }
  if (value.isTensorList() || value.isOptionalTensorList()) {
    Argument argument{.kind = Kind::values};
    for (const c10::IValue& item : value.toListRef())
      argument.values.push_back(item.isTensor() ? operand(item.toTensor()) : -1);
    return argument;
  }
  if (value.isNone()) return {};
  if (value.isBool()) return integers_of(Kind::boolean, {value.toBool()});
  if (value.isInt()) return integers_of(Kind::integer, {value.toInt()});
  if (value.isDouble()) return {.kind = Kind::number, .numbers = {value.toDouble()}};
  if (value.isIntList()) return integers_of(Kind::integers, value.toIntVector());
  if (value.isDoubleList()) return {.kind = Kind::numbers, .numbers = value.toDoubleVector()};
  if (value.isString()) return {.kind = Kind::text, .text = value.toStringRef()};
  if (value.isDevice()) return {.kind = Kind::device};
  if (value.isBoolList()) {
    Argument argument{.kind = Kind::booleans};
    for (const bool flag : value.toBoolList()) argument.integers.push_back({flag});
    return argument;
  }
  refuse(str("gives an argument '", schema.name(), "' of a kind that cannot be saved: ", value.tagKind()));
}

int Recording::result_of(const Tensor& tensor) {
  if (!tensor.defined()) return -1;
  const auto known = numbers_.find(tensor.unsafeGetTensorImpl());
  return known == numbers_.end() ? add(tensor) : known->second;
}

// A call that makes memory without a value is recorded when that memory is used.
bool Recording::keep_back(const c10::FunctionSchema& schema, const Call& call, const torch::jit::Stack& stack) {
  if (!makes_memory_without_value(call) || schema.returns()[0].alias_info()) return false;
  const Tensor& made = stack.back().toTensor();
  if (!made.has_storage() || made.is_meta()) return false;
  bytes_of_memory(made).fill_(kMark);
  fresh_.emplace(made.storage().unsafeGetStorageImpl(), Fresh{made, call});
  return true;
}

// Of a number that C++ wrapped itself, as traces do with sizes: its value is no more than C++ knew.
bool Recording::reads_number_of_cpp(const c10::FunctionSchema& schema,
                                    const std::vector<c10::IValue>& arguments) const {
  if (schema.name() != "aten::item") return false;
  const Tensor& tensor = arguments[0].toTensor();
  const c10::TensorImpl* const known = tensor.unsafeGetTensorImpl();
  if (tensor.dim() != 0 || !tensor.has_storage() || numbers_.contains(known) || names_.contains(known)) return false;
  return find_alias(tensor) < 0 && !fresh_.contains(tensor.storage().unsafeGetStorageImpl());
}

void Recording::call(const c10::OperatorHandle& called, torch::jit::Stack& stack) {
  const OuterRecordGuard aside(nullptr);
  const c10::OperatorHandle op = public_form(called, stack);
  const c10::FunctionSchema& schema = op.schema();
  const std::vector<c10::IValue> arguments = torch::jit::last(stack, schema.arguments().size()).vec();
  const bool equals_itself =  // a question of LibTorch's module of attention
      schema.name() == "aten::equal" && arguments[0].toTensor().is_same(arguments[1].toTensor());
  if (equals_itself || asks_for_form(schema.name())) return run_unrecorded(op, stack);
  if (reads_number_of_cpp(schema, arguments)) {
    recorded_.read_numbers.push_back(arguments[0].toTensor());
    return run_unrecorded(op, stack);
  }
  refuse_call(schema, arguments);
  Call call{.op = op_name(op)};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    call.arguments.push_back({argument.name(), argument_of(arguments[i], argument)});
  }
  run_unrecorded(op, stack);
  if (keep_back(schema, call, stack)) return;
  for (const c10::IValue& result : torch::jit::last(stack, schema.returns().size())) {
    Call::Result made{.is_list = result.isTensorList()};
    if (made.is_list)
      for (const Tensor& tensor : result.toTensorVector()) made.values.push_back(result_of(tensor));
    else
      made.values.push_back(result_of(result.toTensor()));
    call.results.push_back(std::move(made));
  }
  add(std::move(call));
}

TensorOrText Recording::step(keras::layers::PreprocessingOptions layer, std::vector<TensorOrText> inputs) {
  const OuterRecordGuard no_calls(nullptr);
  const keras::layers::StepRecordGuard no_steps(nullptr);
  Argument from{.kind = inputs.size() == 1 ? Kind::value : Kind::values};
  for (const TensorOrText& input : inputs) {
    const auto* const text = std::get_if<Strings>(&input);
    from.values.push_back(text ? number_of(*text) : number_of(std::get<Tensor>(input)));
  }
  Value result = sample_step(layer, inputs);
  Recorded::StepResult made{.value = static_cast<int>(kept_.size()), .is_text = result.is_text()};
  if (has_free_length(layer)) {
    made.free_size = static_cast<int>(
        std::ranges::count_if(recorded_.step_results, [](const auto& other) { return other.free_size.has_value(); }));
    result = with_last_size(result, size_of_step_(*made.free_size));
  }
  made.sizes = result.is_text() ? result.text().shape() : result.tensor().sizes().vec();
  const int number = result.is_text() ? add(result.text()) : add(result.tensor());
  add({.op = step_name(layer),
       .is_step = true,
       .arguments = {{inputs.size() == 1 ? "input" : "inputs", std::move(from)}},
       .results = {{.values = {number}}}});
  recorded_.steps.push_back(std::move(layer));
  recorded_.step_results.push_back(std::move(made));
  if (result.is_text()) return result.text();
  return result.tensor();
}

void Recording::refuse_input_write(const Tensor& input) const {
  refuse(str("writes to its input of shape ", str_list(input.sizes()), "; work on a clone()"),
         ErrorCode::failed_precondition);
}

void Recording::refuse_variable_write(const Recorded::Variable& variable) const {
  const std::string shape = str_list(variable.tensor.sizes());
  if (variable.is_made)
    refuse(str("writes to the tensor of shape ", shape,
               " that C++ has filled, which is saved as a constant; work on a clone()"),
           ErrorCode::failed_precondition);
  refuse(str("writes to the ", variable.name.empty() ? "tensor from outside" : "variable '" + variable.name + "'",
             " of shape ", shape, ", which cannot be saved; work on a clone(), or call eval() before"),
         ErrorCode::failed_precondition);
}

void Recording::refuse_write(const Tensor& tensor) const {
  for (const auto& [input, version] : input_versions_)
    if (are_aliases(input, tensor)) refuse_input_write(input);
  for (const Recorded::Variable& variable : recorded_.variables)
    if (are_aliases(variable.tensor, tensor)) refuse_variable_write(variable);
}

// By what shows in no call.
void Recording::refuse_writes() const {
  for (const auto& [tensor, version] : input_versions_)
    if (version_of(tensor) != version) refuse_input_write(tensor);
  for (const Recorded::Variable& variable : recorded_.variables)
    if (version_of(variable.tensor) != variable.version) refuse_variable_write(variable);
}

}  // namespace tutti::saved_model
