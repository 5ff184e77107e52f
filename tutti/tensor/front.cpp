#include "tutti/tensor/front.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/native_dropout_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/absent_values.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/cut.h"
#include "tutti/tensor/host_draw.h"
#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_arguments.h"
#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/mesh_members.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/outer_recorder.h"
#include "tutti/tensor/remote_reads.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/spec.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using Stack = torch::jit::Stack;

// A replica's component has the variable's shape, which is one for all.
void refuse_geometry(const c10::OperatorHandle& op, const Tensor& tensor) {
  const std::string& name = op.schema().name();
  if (!changes_geometry(op) || replaces_memory(name)) return;
  throw Error(
      ErrorCode::failed_precondition,
      str(name, ": replica ", ThreadView::current().replica, " changes the shape of a tensor of shape ",
          str_list(tensor.sizes()), " that all replicas share; do it outside of run, or work on a view or a clone()"));
}

// The same of an op that has given what it writes to the size of its result: an `out` argument, or addbmm_'s self.
void refuse_resized(const c10::OperatorHandle& op, const Tensor& shared, const Tensor& own) {
  if (own.sizes() == shared.sizes()) return;
  const std::string wanted = str_list(own.sizes());
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  own.resize_(shared.sizes());
  throw Error(ErrorCode::failed_precondition,
              str(op.schema().name(), ": replica ", ThreadView::current().replica, " writes a result of shape ", wanted,
                  " to a tensor of shape ", str_list(shared.sizes()),
                  " that all replicas share; make the tensor so large outside of run, or use the op "
                  "that returns a new tensor"));
}

// After a replica wrote: detach_() of a variable is for this replica what requires_grad_(false) is.
void follow_write(const c10::OperatorHandle& op, const Tensor& shared, const Tensor& own) {
  refuse_resized(op, shared, own);
  if (detaches(op.schema().name())) shared.requires_grad_(false);
}

// Moves a tensor out of the buffer that it shares, which LibTorch cannot resize. A recorder has the call do so, which
// it sees.
void own_storage(const Tensor& tensor) {
  if (tensor.has_storage() && !CallRecorder::current()) tensor.storage().mutable_data();
}

// A replica may not write to a read copy, nor change the shape of what it shares. What it writes else, graphs of global
// view that saved the value must not use.
void note_write(const c10::OperatorHandle& op, const Tensor& tensor) {
  if (!is_mesh_tensor(tensor)) return;
  refuse_geometry(op, tensor);
  if (has_read_copies(tensor))
    throw Error(ErrorCode::failed_precondition,
                str(op.schema().name(), ": replica ", ThreadView::current().replica,
                    " writes in place to a parameter that lies on another device, of which it has a read copy; change "
                    "it with assign(), or where the replicas meet: merge_call, an optimizer's step"));
  if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
}

void note_writes(const c10::OperatorHandle& op, const at::IValue& value) {
  if (value.isTensor()) note_write(op, value.toTensor());
  if (value.isTensorList())
    for (const Tensor& tensor : value.toTensorVector()) note_write(op, tensor);
}

// A mesh tensor that an op was given, and what it gets of it: the replica's own component.
struct ReplicaOperand {
  Tensor shared, own;
  bool is_written;
};
using ReplicaOperands = c10::SmallVector<ReplicaOperand, 4>;

// Puts the replica's own component in the place of each mesh tensor.
void localize(at::IValue& value, bool is_written, ReplicaOperands& operands) {
  replace_mesh_tensors(value, [&](const Tensor& tensor, int) {
    Tensor own = local_unread(tensor);
    if (is_written) own_storage(own);
    operands.push_back({tensor, own, is_written});
    return own;
  });
}

// An op that returns its operand itself, as to() does of the type that it has, returns the mesh tensor: what a program
// does to the one in place, it does to the other. Who names a device gets a plain tensor, in the component's memory.
void give_back(at::IValue& result, const ReplicaOperands& operands, bool is_plain) {
  const auto operand_of = [&](const Tensor& tensor) {
    return std::find_if(operands.begin(), operands.end(),
                        [&](const ReplicaOperand& each) { return tensor.is_same(each.own); });
  };
  const auto given_back = [&](const Tensor& tensor) {
    const auto* operand = operand_of(tensor);
    if (operand == operands.end()) return tensor;
    if (!is_plain) return operand->shared;
    const at::AutoGradMode also_for_later(true);
    return at::alias(tensor);
  };
  replace_tensors(result, given_back);
}

// The op on the replica's own components.
void run_in_replica(const c10::OperatorHandle& op, Stack& stack) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t first = stack.size() - schema.arguments().size();
  const bool is_plain = names_device(schema, torch::jit::last(stack, schema.arguments().size()));
  ReplicaOperands operands;
  for (size_t i = first; i < stack.size(); ++i) {
    const auto* alias = schema.arguments()[i - first].alias_info();
    const bool is_written = alias && alias->isWrite();
    if (is_written) note_writes(op, stack[i]);
    localize(stack[i], is_written, operands);
  }
  op.callBoxed(stack);
  for (const ReplicaOperand& operand : operands)
    if (operand.is_written) follow_write(op, operand.shared, operand.own);
  for (size_t i = stack.size() - schema.returns().size(); i < stack.size(); ++i)
    give_back(stack[i], operands, is_plain);
}

bool has_mesh_tensor(at::ArrayRef<at::IValue> arguments) {
  const auto is_mesh = [](const at::IValue& value) { return value.isTensor() && is_mesh_tensor(value.toTensor()); };
  return std::any_of(arguments.begin(), arguments.end(), [&](const at::IValue& argument) {
    if (!argument.isTensorList() && !argument.isOptionalTensorList()) return is_mesh(argument);
    const auto items = argument.toListRef();
    return std::any_of(items.begin(), items.end(), is_mesh);
  });
}

bool has_tensor(at::ArrayRef<at::IValue> arguments) {
  for (const at::IValue& argument : arguments)
    if ((argument.isTensor() && argument.toTensor().defined()) || argument.isTensorList()) return true;
  return false;
}

// A new value in the place that the scope gives it.
Tensor place(const ScopeState& scope, Tensor value) {
  const Layout* layout = scope_layout(scope, value.dim());
  if (!layout) return make_mesh_tensor(scope.shape, std::move(value));
  const Spec* spec = spec_of("call_with_layout", *layout, value.sizes());
  return make_mesh_tensor(spec, spec->num_components == 1 ? cut(value, spec) : own_pieces(value, spec),
                          value.strides());
}

// A module's weights are drawn on the host, wherever the program moves it then: so are those of one that is made in a
// scope, and begin with the same numbers on every device. Returns whether the op was such a draw, which is then done.
bool draw_on_host(const c10::OperatorHandle& op, Stack& stack) {
  const auto& arguments = op.schema().arguments();
  if (!draws_numbers(op) || arguments.empty() || !arguments[0].alias_info()) return false;
  const size_t first = stack.size() - arguments.size();
  const auto names_generator = [](const at::IValue& value) { return value.isGenerator(); };
  if (!stack[first].isTensor() ||
      std::any_of(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end(), names_generator))
    return false;
  const Tensor drawn = stack[first].toTensor();
  if (drawn.is_cpu() || !is_mesh_tensor(drawn)) return false;
  const Tensor on_host = at::empty_strided(drawn.sizes(), drawn.strides(), drawn.options().device(at::kCPU));
  stack[first] = on_host;
  op.callBoxed(stack);
  drawn.copy_(on_host);
  stack.back() = drawn;
  return true;
}

// In a scope a factory function's result becomes a mesh tensor.
void run_in_scope(const c10::OperatorHandle& op, ScopeState& scope, Stack& stack) {
  const bool is_factory = !has_tensor(torch::jit::last(stack, op.schema().arguments().size()));
  if (auto* recorder = CallRecorder::current())
    recorder->refuse(
        Error(ErrorCode::unimplemented,
              str("function: ", op.schema().name(),
                  " in the scope of a mesh cannot be recorded; make the tensor before, or outside of the scope")));
  if (is_factory && scope.shape->divided() && draws_numbers(op))
    check_generators_of(*scope.shape, op.schema().name(), torch::jit::last(stack, op.schema().arguments().size()));
  bool is_made = is_factory;
  {
    const c10::impl::ExcludeDispatchKeyGuard behind(kFrontKey);
    if (draw_on_host(op, stack)) return;
    if (scope.most_bytes_here && call_without_values(op, *scope.most_bytes_here, stack))
      is_made = true;
    else
      op.callBoxed(stack);
  }
  if (!is_made) return;
  const size_t num_results = op.schema().returns().size();
  for (size_t i = stack.size() - num_results; i < stack.size(); ++i)
    if (stack[i].isTensor() && stack[i].toTensor().defined() && !is_mesh_tensor(stack[i].toTensor()))
      stack[i] = place(scope, std::move(stack[i]).toTensor());
}

void front_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (OuterRecorder* const outer = OuterRecorder::current()) return outer->call(op, *stack);
  if (RemoteReads* const reads = RemoteReads::current(); reads && tell_reads(*reads, op, *stack))
    return op.callBoxed(*stack);  // which may have no mesh tensor left
  const ThreadView& view = ThreadView::current();
  const bool sees_all = c10::impl::tls_is_dispatch_key_included(kFrontKey);  // on a thread that records, or did
  if (view.replica >= 0 && (!sees_all || has_mesh_tensor(torch::jit::last(*stack, op.schema().arguments().size())))) {
    run_in_replica(op, *stack);
  } else if (view.scope) {
    run_in_scope(op, *view.scope, *stack);
  } else if (CallRecorder::current()) {
    record_in_front(op, keys, *stack);
  } else {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kFrontKey), stack);
  }
}

// The device of the tensors that an op is given, or that the caller names for its result.
c10::Device device_of(const c10::FunctionSchema& schema, at::ArrayRef<at::IValue> arguments) {
  std::optional<c10::Device> device;
  for (size_t i = 0; i < arguments.size() && !device; ++i) {
    if (arguments[i].isTensor() && arguments[i].toTensor().defined()) device = arguments[i].toTensor().device();
    if (arguments[i].isDevice() && schema.arguments()[i].name() == "device") device = arguments[i].toDevice();
  }
  return device.value_or(c10::Device(c10::kCPU));
}

// The thread's own generator for an op there; none where that is a CPU's and the op's device is not.
at::IValue own_generator(c10::Device device) {
  at::Generator& own = *ThreadView::current().generator;
  if (own.device().type() == device.type()) return own;
  return device.is_cpu() ? at::IValue(host_draw(own)) : at::IValue();
}

// Puts the thread's own generator where the caller left the argument empty.
class GeneratorKernel final : public c10::OperatorKernel {
 public:
  explicit GeneratorKernel(size_t argument) : argument_(argument) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    if (arguments[argument_].isNone() && ThreadView::current().generator)
      (*stack)[stack->size() - arguments.size() + argument_] = own_generator(device_of(op.schema(), arguments));
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kGeneratorKey), stack);
  }

 private:
  size_t argument_;
};

Tensor& scale_kernel(c10::DispatchKeySet keys, Tensor& self, const Tensor& factor) {
  if (RemoteReads::current() && scale_sparse(self, factor)) return self;
  const c10::DispatchKeySet behind(c10::DispatchKeySet::FULL_AFTER, kGeneratorKey);
  return at::_ops::mul__Tensor::redispatch(keys & behind, self, factor);
}

// LibTorch's own takes no generator, and draws from the one that all share. GPUs' dropout calls it.
std::tuple<Tensor, Tensor> dropout_kernel(c10::DispatchKeySet keys, const Tensor& input, double p,
                                          std::optional<bool> train) {
  const c10::DispatchKeySet behind(c10::DispatchKeySet::FULL_AFTER, kGeneratorKey);
  at::Generator* const own = ThreadView::current().generator;
  if (!own || !train.value_or(true) || p == 0 || input.numel() == 0)
    return at::_ops::native_dropout::redispatch(keys & behind, input, p, train);
  const Tensor mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(1 - p);
  return {input * mask * (p == 1 ? 0 : 1 / (1 - p)), mask};
}

void register_generators() {
  immortal_library("_", kGeneratorKey).fallback(torch::CppFunction::makeFallthrough());
  auto& aten = immortal_library("aten", kGeneratorKey);
  const auto is_generator = [](const c10::Argument& argument) {
    return argument.type()->str().find("Generator") != std::string::npos;
  };
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op) continue;
    const auto& arguments = op->schema().arguments();
    const auto found = std::find_if(arguments.begin(), arguments.end(), is_generator);
    if (found == arguments.end()) continue;
    const std::string text = full_name(name);
    aten.impl(text.c_str(), torch::CppFunction::makeFromBoxedFunctor(
                                std::make_unique<GeneratorKernel>(static_cast<size_t>(found - arguments.begin()))));
  }
  aten.impl("mul_.Tensor", TORCH_FN(scale_kernel));
  aten.impl("native_dropout", TORCH_FN(dropout_kernel));
}

}  // namespace

void register_front() {
  immortal_library("_", kFrontKey).fallback(torch::CppFunction::makeFromBoxedFunction<&front_kernel>());
  register_generators();
}

}  // namespace tutti
