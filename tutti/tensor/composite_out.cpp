// out= forms of ops that LibTorch composes of others: matmul, tensordot, kron, … LibTorch resizes what it is given by a
// short cut for tensors on the CPU, which changes a mesh tensor's own sizes and not its components. Here the op without
// out= computes the result, which `out` takes over.
#include "tutti/tensor/composite_out.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/size_check.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

bool is_written(const c10::Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

// Ops by name that are composed of others, but for those that write.
std::multimap<std::string, c10::OperatorHandle> composed_ops() {
  std::multimap<std::string, c10::OperatorHandle> ops;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
        !is_composed_below_autograd(name.name))
      continue;
    const auto& arguments = op->schema().arguments();
    if (std::none_of(arguments.begin(), arguments.end(), is_written)) ops.emplace(name.name, *op);
  }
  return ops;
}

// Whether the first of `all` are these.
bool have_arguments(const std::vector<c10::Argument>& these, const std::vector<c10::Argument>& all) {
  return these.size() <= all.size() &&
         std::equal(these.begin(), these.end(), all.begin(),
                    [](const auto& a, const auto& b) { return a.name() == b.name() && *a.type() == *b.type(); });
}

// Whether `op` returns what `out_op` writes to its out= arguments, a tensor each or one list.
bool is_form_without_out(const c10::FunctionSchema& op, const c10::FunctionSchema& out_op) {
  const auto &inputs = op.arguments(), &all = out_op.arguments();
  const auto is_out_tensor = [](const c10::Argument& argument) {
    return argument.is_out() && argument.type()->kind() == c10::TypeKind::TensorType;
  };
  const auto is_list = [](const c10::Argument& argument) {
    return argument.type()->isSubtypeOf(*c10::ListType::ofTensors());
  };
  if (op.returns().size() == 1 && is_list(op.returns()[0]))
    return all.size() == inputs.size() + 1 && out_op.returns().empty() && all.back().is_out() && is_list(all.back()) &&
           have_arguments(inputs, all);
  return all.size() == inputs.size() + op.returns().size() && op.returns().size() == out_op.returns().size() &&
         !op.returns().empty() && have_arguments(inputs, all) &&
         std::all_of(all.begin() + static_cast<int64_t>(inputs.size()), all.end(), is_out_tensor);
}

// Gives `out` these sizes, with its axes in memory in the order of the strides, dense.
void resize(const Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::DimVector axes(sizes.size()), sizes_in_memory;
  std::iota(axes.begin(), axes.end(), 0);
  const auto stride = [&](int64_t axis) { return strides[static_cast<size_t>(axis)]; };
  std::stable_sort(axes.begin(), axes.end(), [&](int64_t a, int64_t b) { return stride(a) > stride(b); });
  for (const int64_t axis : axes) sizes_in_memory.push_back(sizes[static_cast<size_t>(axis)]);
  out.resize_(sizes_in_memory);
  for (size_t i = 0; i < axes.size(); ++i)
    while (axes[i] != static_cast<int64_t>(i)) {
      const int64_t place = axes[i];
      out.transpose_(static_cast<int64_t>(i), place);
      std::swap(axes[i], axes[static_cast<size_t>(place)]);
    }
}

// Gives `out` the value, and where it was made with a graph that too. `twin`: what LibTorch makes of a tensor like
// `out` without memory, undefined where that is not known.
void take_value(const Tensor& out, const Tensor& value, const Tensor& twin = {}) {
  if (out.sizes() != value.sizes()) {
    const bool is_known = twin.defined() && twin.sizes() == value.sizes();
    resize(out, value.sizes(), is_known ? twin.strides() : at::IntArrayRef(c10::contiguous_strides(value.sizes())));
  }
  out.copy_(value);
}

void require_cast(const Tensor& out, const Tensor& value) {
  TORCH_CHECK(c10::canCast(value.scalar_type(), out.scalar_type()), "result type ", value.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
}

void require_same_type(const Tensor& out, const Tensor& value) {
  TORCH_CHECK(out.scalar_type() == value.scalar_type(), "Expected out tensor to have dtype ", value.dtype(),
              ", but got ", out.dtype(), " instead");
}

void require_real(const c10::OperatorHandle& op, const Tensor& out) {
  TORCH_CHECK(out.is_floating_point(), op.schema().name(), " expects a floating point output tensor, but got ",
              out.scalar_type());
}

// Names `type` where the call of the op on top of the stack names none.
void name_type(const c10::FunctionSchema& schema, at::ScalarType type, torch::jit::Stack& stack) {
  const auto index = static_cast<size_t>(*schema.argumentIndexWithName("dtype"));
  at::IValue& dtype = torch::jit::peek(stack, index, schema.arguments().size());
  if (dtype.isNone()) dtype = type;
}

class CompositeOut final : public c10::OperatorKernel {
 public:
  explicit CompositeOut(c10::OperatorHandle composed) : composed_(std::move(composed)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    const size_t inputs = composed_.schema().arguments().size();
    const std::vector<at::IValue> outs(arguments.begin() + static_cast<int64_t>(inputs), arguments.end());
    const bool is_list = op.schema().returns().empty();
    const auto on_mesh = [](const at::IValue& out) { return is_mesh_tensor(out.toTensor()); };
    const auto items = is_list ? outs[0].toListRef() : at::ArrayRef<at::IValue>(outs);
    if (!std::all_of(items.begin(), items.end(), on_mesh))
      return op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    const c10::AutoGradMode graphs(at::GradMode::is_enabled() && !is_list);  // out= forms of lists make none
    const torch::jit::Stack twins = is_list ? torch::jit::Stack() : check_sizes(op, arguments);
    const bool is_complex = arguments[0].isTensor() && arguments[0].toTensor().is_complex();
    torch::jit::drop(*stack, outs.size());
    if (computes_in_type_of_out(op.schema().name()))
      name_type(composed_.schema(), outs[0].toTensor().scalar_type(), *stack);
    composed_.callBoxed(*stack);
    if (is_list) return take_values(op, items, torch::jit::pop(*stack).toTensorVector());
    for (size_t i = 0; i < outs.size(); ++i) {
      at::IValue& result = (*stack)[stack->size() - outs.size() + i];
      const bool has_graph =  // LibTorch's may have none, and of truth values it has none
          twins.empty() ? result.toTensor().scalar_type() != at::kBool : twins[i].toTensor().grad_fn() != nullptr;
      const c10::AutoGradMode mode(at::GradMode::is_enabled() && has_graph);
      if (twins.empty()) require_cast(outs[i].toTensor(), result.toTensor());  // else LibTorch has looked
      if (requires_real_out(op.schema().name())) require_real(op, outs[i].toTensor());
      if (op.hasTag(at::Tag::generated) || requires_type_of_result(op.schema().name(), is_complex))
        require_same_type(outs[i].toTensor(), result.toTensor());
      take_value(outs[i].toTensor(), result.toTensor(), twins.empty() ? Tensor() : twins[i].toTensor());
      result = outs[i];
    }
  }

 private:
  static void take_values(const c10::OperatorHandle& op, at::ArrayRef<at::IValue> outs,
                          const std::vector<Tensor>& values) {
    const auto require_type = op.hasTag(at::Tag::generated) ? require_same_type : require_cast;
    TORCH_CHECK(outs.size() == values.size(), "expected ", values.size(), " tensors in out, got ", outs.size());
    for (size_t i = 0; i < values.size(); ++i) {
      require_type(outs[i].toTensor(), values[i]);
      take_value(outs[i].toTensor(), values[i]);
    }
  }

  c10::OperatorHandle composed_;
};

}  // namespace

void register_composite_out() {
  auto& backend = immortal_library("aten", kMeshKey);
  auto& autograd = immortal_library("aten", kMeshAutogradKey);
  const auto composed = composed_ops();
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0 || renames_out(name.name)) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    const auto [first, last] = composed.equal_range(name.name);
    const auto form = std::find_if(
        first, last, [&](const auto& entry) { return op && is_form_without_out(entry.second.schema(), op->schema()); });
    const bool is_composed = op && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    if (form == last || !(is_composed || op->hasTag(at::Tag::generated))) continue;
    const auto add = [&](torch::Library& library) {
      library.impl(full_name(name).c_str(),
                   torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CompositeOut>(form->second)));
    };
    add(autograd);
    if (is_composed) add(backend);
  }
}

}  // namespace tutti
