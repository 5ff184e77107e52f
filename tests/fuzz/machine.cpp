#include "machine.h"

#include <ATen/ScalarOps.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "optimizers.h"
#include "tutti/core/error.h"
#include "tutti/tensor/mesh_arguments.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/rules/op_traits.h"

namespace tutti::fuzz {
namespace {

// The tensor of a result, or a number as one; nothing of what is neither.
std::optional<Tensor> tensor_of(const at::IValue& value) {
  if (value.isTensor()) return value.toTensor();
  if (value.isScalar()) return c10::scalar_to_tensor(value.toScalar());
  return {};
}

Tensor weights(const Tensor& tensor) {
  const at::NoGradGuard guard;
  return at::ones_like(tensor, at::TensorOptions().memory_format(at::MemoryFormat::Contiguous)).mul_(0.5);
}

// No tensor: of an optional argument nothing at all.
at::IValue absent(const c10::Argument& argument) {
  return argument.real_type()->kind() == c10::TypeKind::OptionalType ? at::IValue() : at::IValue(Tensor());
}

// The argument that a call writes and returns: to a program in C++ it returns what it was given.
std::optional<size_t> written_return(const c10::FunctionSchema& schema, size_t result) {
  const auto* alias = schema.returns()[result].alias_info();
  if (!alias || !alias->isWrite()) return {};
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (const auto* written = schema.arguments()[i].alias_info(); written && *written == *alias) return i;
  return {};
}

bool has_fractions(const at::IValue& value) {
  const auto is_fractional = [](const Tensor& tensor) {
    return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
  };
  if (value.isTensor()) return is_fractional(value.toTensor());
  if (!value.isTensorList()) return false;
  const std::vector<Tensor> list = value.toTensorVector();
  return std::any_of(list.begin(), list.end(), is_fractional);
}

// Whether a result's elements are sums, of which a zero has the sign that the order of addition gives it.
bool adds(const std::string& op) {
  static constexpr const char* kParts[] = {"mm", "mv", "matmul", "dot", "conv", "linear", "einsum", "sum", "mean"};
  return std::ranges::any_of(kParts, [&](const char* part) { return op.find(part) != std::string::npos; });
}

// Past autograd, which sees no write.
Tensor turn_zeros(const Tensor& tensor) {
  if (!has_fractions(tensor) || !tensor.is_non_overlapping_and_dense()) return tensor;
  const Tensor data = tensor.tensor_data();
  data.copy_(at::where(data == 0, -data, data));
  return tensor;
}

// Where the elements lie, from the start of their memory; sorted.
std::vector<int64_t> places_of(const Tensor& tensor) {
  std::vector<int64_t> places;
  if (tensor.numel() > 0) places.push_back(tensor.storage_offset());
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    std::vector<int64_t> longer;
    for (const int64_t place : places)
      for (int64_t i = 0; i < tensor.size(axis); ++i) longer.push_back(place + i * tensor.stride(axis));
    places = std::move(longer);
  }
  std::sort(places.begin(), places.end());
  return places;
}

// Whether two elements share a place in memory.
bool overlaps(const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_non_overlapping_and_dense()) return false;
  const auto places = places_of(tensor);
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

bool is_plain(const Tensor& tensor) { return tensor.defined() && !is_mesh_tensor(tensor); }

// Whether the call writes statistics, which its schema does not say, into the memory of what it normalizes.
bool writes_operand(const c10::FunctionSchema& schema, at::ArrayRef<at::IValue> given) {
  const auto written = unnamed_writes(schema);
  return std::any_of(written.begin(), written.end(), [&](int argument) {
    const at::IValue& value = given[static_cast<size_t>(argument)];
    return value.isTensor() && is_plain(value.toTensor()) && is_plain(given[0].toTensor()) &&
           value.toTensor().is_alias_of(given[0].toTensor());
  });
}

// Whether the call writes elements that it also reads, and not as the same tensor.
bool writes_what_it_reads(const c10::FunctionSchema& schema, at::ArrayRef<at::IValue> given) {
  std::vector<Tensor> written, read;
  for (size_t i = 0; i < given.size(); ++i) {
    at::IValue value = given[i];
    replace_tensors(value, [&](const Tensor& tensor) {
      if (is_plain(tensor) && tensor.has_storage())
        (is_written(schema.arguments()[i]) ? written : read).push_back(tensor);
      return tensor;
    });
  }
  const auto meet = [](const Tensor& a, const Tensor& b) {
    if (!a.is_alias_of(b) || (a.sizes() == b.sizes() && a.strides() == b.strides())) return false;
    const auto of_a = places_of(a), of_b = places_of(b);
    std::vector<int64_t> both;
    std::ranges::set_intersection(of_a, of_b, std::back_inserter(both));
    return !both.empty();
  };
  return std::ranges::any_of(
      written, [&](const Tensor& a) { return std::ranges::any_of(read, [&](const Tensor& b) { return meet(a, b); }); });
}

}  // namespace

Machine::Machine(const Program& program, const Variation& variation)
    : program_(program), row_major_(variation.row_major), other_zeros_(variation.other_zeros) {}
Machine::~Machine() = default;

const Tensor& Machine::at(int slot) const {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) throw Invalid();
  return found->second;
}

std::vector<Tensor> Machine::leaves() const {
  std::vector<Tensor> found;
  for (const Input& input : program_.inputs)
    if (input.requires_grad) found.push_back(at(input.slot));
  return found;
}

void Machine::call(const Statement& statement) {
  torch::jit::Stack stack;
  const auto& schema = statement.op->schema();
  for (size_t i = 0; i < statement.arguments.size(); ++i) {
    const Argument& argument = statement.arguments[i];
    const bool copied = row_major_ && !schema.arguments()[i].alias_info();
    if (argument.kind == Argument::Kind::tensor && copied && argument.slots[0] >= 0) {
      stack.emplace_back(at(argument.slots[0]).contiguous());
    } else if (argument.kind == Argument::Kind::constant) {
      stack.push_back(argument.constant);
    } else if (argument.kind == Argument::Kind::tensor) {
      stack.push_back(argument.slots[0] < 0 ? absent(schema.arguments()[i]) : at::IValue(at(argument.slots[0])));
    } else if (schema.arguments()[i].real_type()->str().find('?') != std::string::npos) {
      c10::List<std::optional<Tensor>> list;
      for (const int slot : argument.slots) list.push_back(slot < 0 ? std::nullopt : std::optional<Tensor>(at(slot)));
      stack.emplace_back(list);
    } else {
      c10::List<Tensor> list;
      for (const int slot : argument.slots) list.push_back(at(slot));
      stack.emplace_back(list);
    }
  }
  const torch::jit::Stack given = stack;
  for (size_t i = 0; i < given.size(); ++i)
    writes_overlap_ |= is_written(schema.arguments()[i]) && given[i].isTensor() && overlaps(given[i].toTensor());
  writes_overlap_ |= writes_operand(schema, given) || writes_what_it_reads(schema, given);
  statement.op->callBoxed(stack);
  for (size_t r = 0; r < stack.size(); ++r)
    if (const auto argument = written_return(schema, r)) stack[r] = given[*argument];
  if (change_ && std::none_of(given.begin(), given.end(), has_fractions))
    for (at::IValue& value : stack)
      replace_tensors(value, [&](const Tensor& tensor) { return has_fractions(tensor) ? change_(tensor) : tensor; });
  if (other_zeros_ && adds(schema.name()))
    for (at::IValue& value : stack) replace_tensors(value, turn_zeros);
  int slot = statement.result;
  const int end = slot + Program::kResults;
  for (const at::IValue& value : stack) {
    if (auto tensor = tensor_of(value)) slots_[slot++] = std::move(*tensor);
    if (value.isTensorList())
      for (const Tensor& tensor : value.toTensorVector())
        if (slot < end) slots_[slot++] = tensor;
  }
}

void Machine::backward(const Statement& statement) {
  std::vector<Tensor> results, gradients;
  for (const int slot : statement.arguments[0].slots) results.push_back(at(slot));
  for (const Tensor& result : results) gradients.push_back(weights(result));
  torch::autograd::backward(results, gradients);
}

void Machine::gradient(const Statement& statement) {
  std::vector<Tensor> results, gradients, inputs;
  for (const int slot : statement.arguments[0].slots) results.push_back(at(slot));
  for (const int slot : statement.arguments[1].slots) inputs.push_back(at(slot));
  for (const Tensor& result : results) gradients.push_back(weights(result));
  int slot = statement.result;
  for (Tensor& tensor : torch::autograd::grad(results, inputs, gradients, true, /*create_graph=*/true, true))
    slots_[slot++] = std::move(tensor);
}

void Machine::run(const Statement& statement) {
  const c10::AutoGradMode mode(!statement.no_grad && at::GradMode::is_enabled());
  switch (statement.kind) {
    case Statement::Kind::call: return call(statement);
    case Statement::Kind::backward: return backward(statement);
    case Statement::Kind::gradient: return gradient(statement);
    case Statement::Kind::hook:
      at(statement.arguments[0].slots[0]).register_hook([](const Tensor& gradient) { return gradient * 2; });
      return;
    case Statement::Kind::read_gradient: slots_[statement.result] = at(statement.arguments[0].slots[0]).grad(); return;
    case Statement::Kind::zero_gradients:
      for (const Tensor& leaf : leaves()) leaf.mutable_grad() = Tensor();
      return;
    case Statement::Kind::optimizer_step:
      if (!optimizers_) optimizers_ = std::make_unique<Optimizers>();
      optimizers_->step(statement.optimizer, leaves());
      return;
  }
}

int Machine::first_with(const Tensor& tensor) const {
  return std::find_if(slots_.begin(), slots_.end(), [&](const auto& each) { return each.second.is_same(tensor); })
      ->first;
}

Seen Machine::look(int slot, bool is_gradient, const Tensor& tensor,
                   const std::function<Tensor(const Tensor&)>& plain_of) {
  if (!tensor.defined()) return {slot, is_gradient, {}, {}, {}, at::kFloat, false};
  const at::NoGradGuard guard;
  const Tensor value = plain_of(tensor.detach());
  return {slot,
          is_gradient,
          value.resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous).cpu(),
          tensor.sizes().vec(),
          tensor.strides().vec(),
          tensor.scalar_type(),
          tensor.requires_grad(),
          is_gradient ? -1 : first_with(tensor)};
}

Outcome Machine::run_all(const std::function<Tensor(const Tensor&)>& plain_of) {
  Outcome outcome;
  for (size_t i = 0; i < program_.statements.size() && !outcome.failure; ++i) {
    outcome.failure = failure_of([&] { run(program_.statements[i]); });
    if (outcome.failure) outcome.failure->statement = i;
  }
  outcome.writes_overlap = writes_overlap_;
  auto failure = failure_of([&] {
    for (const auto& [slot, tensor] : slots_) outcome.seen.push_back(look(slot, false, tensor, plain_of));
    for (const Input& input : program_.inputs)
      if (input.requires_grad) outcome.seen.push_back(look(input.slot, true, at(input.slot).grad(), plain_of));
  });
  if (failure && !outcome.failure) {
    outcome.failure = std::move(failure);
    outcome.failure->statement = program_.statements.size();
  }
  return outcome;
}

std::optional<Failure> failure_of(const std::function<void()>& f) {
  try {
    f();
    return {};
  } catch (const c10::Error& error) {
    return Failure{0, error.what_without_backtrace(), true};
  } catch (const Error& error) {
    return Failure{0, error.what(), false, error.code() != ErrorCode::internal};
  } catch (const std::exception& error) {
    return Failure{0, error.what()};
  }
}

}  // namespace tutti::fuzz
