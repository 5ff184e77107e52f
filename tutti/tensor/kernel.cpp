// The one kernel of mesh tensors, instantiated for every aten op, and its registration.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <mutex>

#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/composite_out.h"
#include "tutti/tensor/contraction.h"
#include "tutti/tensor/conversion.h"
#include "tutti/tensor/execute.h"
#include "tutti/tensor/front.h"
#include "tutti/tensor/library.h"
#include "tutti/tensor/mesh_arguments.h"
#include "tutti/tensor/mesh_members.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/overlaps.h"
#include "tutti/tensor/plan_cache.h"
#include "tutti/tensor/recurrence.h"
#include "tutti/tensor/registration.h"
#include "tutti/tensor/result_geometries.h"
#include "tutti/tensor/rules/device_choices.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/selection.h"
#include "tutti/tensor/size_check.h"
#include "tutti/tensor/strict_mode.h"
#include "tutti/tensor/variable_methods.h"
#include "tutti/tensor/view.h"
#include "tutti/tensor/view_in_place.h"
#include "tutti/tensor/view_replay.h"

namespace tutti {
namespace {

// What the tensor arguments of a call have in common.
struct Operands {
  const MeshShape* shape = nullptr;
  bool all_whole = true;       // each mesh tensor is a replicated value in one buffer
  bool all_replicated = true;  // the same in any number of buffers
  bool writes_plain = false;   // one that the op writes
  bool writes_mesh = false;
  bool any_plain = false;    // a defined plain tensor with axes is among them
  bool reads_plain = false;  // a defined plain tensor that the op only reads
};

class Survey {
 public:
  Survey(const OperatorInfo& info) : info_(info) {}

  Operands run(at::ArrayRef<at::IValue> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const at::IValue& value = arguments[i];
      if (value.isTensor())
        look(value.toTensor(), info_.writes[i]);
      else if (value.isTensorList() || value.isOptionalTensorList())
        for (const at::IValue& item : value.toListRef())
          if (item.isTensor()) look(item.toTensor(), info_.writes[i]);
    }
    if (operands_.writes_plain && operands_.shape) check_plain_write();
    return operands_;
  }

 private:
  void look(const Tensor& tensor, bool written) {
    if (!tensor.defined()) return;
    if (!is_mesh_tensor(tensor)) {
      operands_.any_plain |= tensor.dim() > 0;
      operands_.reads_plain |= !written;
      operands_.writes_plain |= written;
      return;
    }
    const auto& impl = mesh_impl(tensor);
    if (!operands_.shape) operands_.shape = impl.mesh_shape();
    if (operands_.shape != impl.mesh_shape())
      throw Error(ErrorCode::invalid_argument,
                  str(info_.name, ": operands of two meshes, ", operands_.shape->mesh.to_string(), " and ",
                      impl.mesh_shape()->mesh.to_string(), "; gather() one of them first"));
    operands_.all_whole &= impl.whole();
    operands_.all_replicated &= impl.whole() || impl.spec()->replicated();
    operands_.writes_mesh |= written;
  }

  // What a plain tensor would get of sharded operands depends on the layout: refused. Of replicated ones it is their
  // value: an optimizer whose state was loaded has plain moments. copy_ is how a program asks for a sharded value, and
  // LibTorch's backward formulas write mesh values into plain tensors that they made.
  void check_plain_write() const {
    if (operands_.all_whole || info_.may_fill_plain || torch::autograd::get_current_graph_task_id() >= 0) return;
    if (operands_.all_replicated && !operands_.writes_mesh) return;
    throw Error(ErrorCode::invalid_argument,
                str(info_.name,
                    ": in-place on a plain tensor with mesh operands; make the tensor in the strategy's "
                    "scope, or gather() the operands"));
  }

  const OperatorInfo& info_;
  Operands operands_;
};

// Plain operands count as replicated: from here on they are mesh tensors that share the plain ones' buffers.
void adopt_plain_operands(const OperatorInfo& info, const MeshShape* shape, Stack& stack) {
  const size_t first = stack.size() - info.num_arguments;
  const auto adopt = [&](const Tensor& tensor) {
    return tensor.defined() && !is_mesh_tensor(tensor) ? borrow_as_replicated(shape, tensor) : tensor;
  };
  for (size_t i = 0; i < info.num_arguments; ++i)
    if (!info.writes[i]) replace_tensors(stack[first + i], adopt);
}

// In the place of replicated values in several buffers what the device of the plain tensor has of them.
void read_beside_plain(const OperatorInfo& info, Stack& stack) {
  const size_t first = stack.size() - info.num_arguments;
  std::optional<c10::Device> device;
  const auto note = [&](const Tensor& tensor) {
    if (tensor.defined() && !device) device = tensor.device();
    return tensor;
  };
  for (size_t i = 0; i < info.num_arguments; ++i)
    if (info.writes[i]) replace_tensors(stack[first + i], note);
  const auto there = [&](const Tensor& tensor) {
    if (!tensor.defined() || !is_mesh_tensor(tensor)) return tensor;
    const Components& buffers = mesh_impl(tensor).read();
    const auto found = std::ranges::find(buffers, *device, &Tensor::device);
    return found != buffers.end() ? *found : buffers[0];  // on another device LibTorch says what it takes
  };
  for (size_t i = 0; i < info.num_arguments; ++i) replace_tensors(stack[first + i], there);
}

// LibTorch's thread for backward passes on the first GPU has the caller's stream of that one, and an op on a mesh
// computes on all of the mesh's: passes that the calling thread begins run on that thread from now on.
void keep_backward_here(const MeshShape& shape) {
  if (shape.one_buffer_when_replicated || shape.devices.front().is_cpu()) return;
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
}

class MeshKernel final : public c10::OperatorKernel {
 public:
  explicit MeshKernel(const c10::OperatorHandle& op)
      : info_(op),
        numbers_(tensor_of_numbers(op.schema())),
        chooses_(chooses_by_device(op)),
        view_form_(view_form_of(op)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
    if (info_.is_composite) {
      if (numbers_) gather_numbers(torch::jit::peek(*stack, *numbers_, info_.num_arguments));
      if (chooses_ && choose_for_mesh(op, *stack)) return;
      return op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    }
    const c10::impl::ExcludeDispatchKeyGuard below(c10::autocast_dispatch_keyset |
                                                   c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    if (adds_ && adds_to_sparse(*stack)) return add_to_sparse(*stack);
    const Operands operands = Survey(info_).run(torch::jit::last(*stack, info_.num_arguments));
    if (!operands.shape) throw Error(ErrorCode::internal, str(info_.name, ": called on mesh tensors without any"));
    if (operands.any_plain) {
      check_plain_operand(info_.name);
      communicated(plain_operands(), 0);
    }
    if (operands.writes_plain && !operands.writes_mesh && operands.all_replicated && !operands.all_whole) {
      read_beside_plain(info_, *stack);
      return op.callBoxed(*stack);
    }
    if (info_.draws && operands.shape->divided())
      check_generators_of(*operands.shape, info_.name, torch::jit::last(*stack, info_.num_arguments));
    if (gives_back_nothing_ && give_back_nothing(*stack)) return;
    if (info_.changes_geometry) return change_geometry(op, operands, *stack);
    if (operands.all_whole && !names_places_of_copy(*stack)) {
      if (!operands.shape->merged()) check_overlaps(op, info_, torch::jit::last(*stack, info_.num_arguments));
      return run_on_one_buffer(op, info_, operands.shape, nullptr, *stack);
    }
    run_planned(op, operands, *stack);
  }

 private:
  // LibTorch adds a sparse gradient to a dense one and not the other way round, and sees of neither what it is.
  static bool adds_to_sparse(const Stack& stack) {
    const auto is_sparse = [&](size_t i) {
      const at::IValue& value = torch::jit::peek(stack, i, 3);
      if (!value.isTensor() || !is_mesh_tensor(value.toTensor()))
        return value.isTensor() && value.toTensor().is_sparse();
      const auto& components = mesh_impl(value.toTensor()).components();
      return !components.empty() && components[0].defined() && components[0].is_sparse();
    };
    return is_sparse(0) && torch::jit::peek(stack, 1, 3).isTensor() && !is_sparse(1) &&
           torch::jit::peek(stack, 2, 3).toScalar().equal(1);
  }
  void add_to_sparse(Stack& stack) const {
    Tensor sparse = torch::jit::peek(stack, 0, 3).toTensor();
    const Tensor sum = torch::jit::peek(stack, 1, 3).toTensor().add(sparse);
    torch::jit::drop(stack, 3);
    if (info_.writes_any) {
      sparse.unsafeGetTensorImpl()->shallow_copy_from(sum.getIntrusivePtr());
      stack.emplace_back(std::move(sparse));
    } else {
      stack.emplace_back(sum);
    }
  }

  static void gather_numbers(at::IValue& value) {
    if (value.isTensor() && is_mesh_tensor(value.toTensor())) value = gather(value.toTensor().detach());
  }

  bool give_back_nothing(Stack& stack) const {
    const Tensor first = torch::jit::peek(stack, 0, info_.num_arguments).toTensor();
    if (first.numel() != 0) return false;
    torch::jit::drop(stack, info_.num_arguments);
    torch::jit::push(stack, first, at::empty_like(first));
    return true;
  }

  // Whether the op names places in the memory of a view that had to be copied: around the copy there is nothing.
  bool names_places_of_copy(const Stack& stack) const {
    if (!names_strides_) return false;
    const Tensor& self = torch::jit::peek(stack, 0, info_.num_arguments).toTensor();
    return is_mesh_tensor(self) && mesh_impl(self).copied_view;
  }

  // Aliases, which share the pieces, keep their geometry. A tensor that may not change says so before anything does.
  void change_geometry(const c10::OperatorHandle& op, const Operands& operands, Stack& stack) {
    const Tensor self = torch::jit::last(stack, info_.num_arguments)[0].toTensor();
    if (!is_mesh_tensor(self)) return run_planned(op, operands, stack);
    auto& impl = mesh_impl(self);
    impl.set_sizes_and_strides(impl.sizes(), impl.strides(), impl.storage_offset());
    impl.own_geometry();
    if (view_form_ && !operands.all_whole) {
      view_form_->callBoxed(stack);
      impl.become(mesh_impl(stack.back().toTensor()));
      stack.back() = self;
    } else if (operands.all_whole) {
      run_on_one_buffer(op, info_, operands.shape, nullptr, stack);
    } else {
      run_planned(op, operands, stack);
    }
    impl.update_replica_values(view_form_.has_value());
  }

  // A rule that does not fit the operands says no, once LibTorch has said what is wrong with them.
  bool follow_rule(const c10::OperatorHandle& op, Planner& planner, at::ArrayRef<at::IValue> arguments) const {
    try {
      return info_.rule(planner);
    } catch (const NoShardedForm&) {
      check_sizes(op, arguments);
      return false;
    }
  }

  // Whether the op fills its first argument and reads no other tensor: normal_, bernoulli_(p), …
  bool draws_into_first(at::ArrayRef<at::IValue> arguments) const {
    return info_.writes[0] && arguments[0].isTensor() &&
           std::none_of(arguments.begin() + 1, arguments.end(),
                        [](const at::IValue& value) { return value.isTensor(); });
  }

  // Calls in which a plain tensor counted as replicated: reported, though nothing moves.
  CommunicationCounter& plain_operands() {
    auto* counter = plain_operands_.load(std::memory_order_acquire);
    if (counter) return *counter;
    counter = &communication_counter({.op = "replicate", .cause = info_.name, .implied = true, .free = true});
    plain_operands_.store(counter, std::memory_order_release);
    return *counter;
  }

  void run_planned(const c10::OperatorHandle& op, const Operands& operands, Stack& stack) {
    const MeshShape* shape = operands.shape;
    keep_backward_here(*shape);
    if (operands.reads_plain) adopt_plain_operands(info_, shape, stack);
    auto arguments = torch::jit::last(stack, info_.num_arguments);
    const auto key = PlanCache::key_of(info_, arguments, !shape->merged());
    if (!shape->merged() && info_.decomposition)
      if (auto results = info_.decomposition(arguments)) {
        const auto plan = decomposed_.find_or_make(key, [&] {
          Plan only_strides;
          only_strides.geometries = ResultGeometries(op, info_, arguments);
          return only_strides;
        });
        return give_results(*plan, std::move(*results), stack);
      }
    const auto plan = plans_.find_or_make(key, [&] {
      Planner planner(info_, shape, arguments);
      // Pieces would draw other numbers than the whole.
      const bool sharded = info_.rule && !operands.writes_plain && (shape->merged() || !info_.draws) &&
                           follow_rule(op, planner, arguments);
      Plan made = planner.finish(sharded);
      if (!shape->merged()) made.geometries = ResultGeometries(op, info_, arguments);
      return made;
    });
    if (!shape->merged()) check_overlaps(op, info_, arguments);
    if (info_.draws && !shape->merged() && draws_into_first(arguments)) return run_drawn(op, info_, stack);
    if (plan->gathers) note_gather(info_.name, arguments);
    if (shape->merged()) return run_on_one_buffer(op, info_, shape, plan.get(), stack);
    if (plan->gathers) return run_gathered(op, info_, shape, *plan, stack);
    run_on_pieces(op, info_, shape, *plan, stack);
  }

  // Of an op that was rewritten as others: the results get the strides that they would have without that.
  void give_results(const Plan& plan, std::vector<at::IValue> results, Stack& stack) const {
    torch::jit::drop(stack, info_.num_arguments);
    for (size_t r = 0; r < results.size(); ++r) {
      if (results[r].isTensor() && !info_.is_view && info_.written_return[r] < 0)
        results[r] = with_strides_of(plan, r, results[r].toTensor());
      stack.push_back(std::move(results[r]));
    }
  }

  OperatorInfo info_;
  bool names_strides_ = names_strides(info_.name);
  bool adds_ = adds(info_.name) && !info_.writes_out;
  bool gives_back_nothing_ = !info_.writes_out && gives_back_nothing(info_.name);
  std::optional<size_t> numbers_;  // an argument that an op composed of others reads by its memory
  const bool chooses_;
  std::optional<c10::OperatorHandle> view_form_;
  PlanCache plans_;
  PlanCache decomposed_;  // of ops that are rewritten as others: strides alone
  std::atomic<CommunicationCounter*> plain_operands_{nullptr};
};

// For operators that are registered after us, and for plain sparse operands beside mesh tensors: the schema is read at
// each call.
void late_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  MeshKernel{op}(op, keys, stack);
}

void register_kernels() {
  auto& aten = immortal_library("aten", kMeshKey);
  auto& sparse = immortal_library("aten", c10::DispatchKey::SparsePrivateUse3);
  immortal_library("_", kMeshKey).fallback(torch::CppFunction::makeFromBoxedFunction<&late_kernel>());
  immortal_library("_", c10::DispatchKey::SparsePrivateUse3)
      .fallback(torch::CppFunction::makeFromBoxedFunction<&late_kernel>());
  immortal_library("_", kMeshAutogradKey).fallback(torch::CppFunction::makeFallthrough());
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0 || asks_of_types(name.name)) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || (is_composed(*op) && !chooses_by_device(*op))) continue;
    const std::string text = full_name(name);
    aten.impl(text.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<MeshKernel>(*op)));
    if (makes_sparse(name.name))
      sparse.impl(text.c_str(), torch::CppFunction::makeFromBoxedFunctor(std::make_unique<MeshKernel>(*op)));
  }
}

}  // namespace

void ensure_registered() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_kernels();
    register_front();
    register_conversions();
    register_composite_out();
    register_contractions();
    register_recurrences();
    register_selections();
    register_variable_methods();
    register_views_in_place();
    register_view_replay();
  });
  settle_view();
}

}  // namespace tutti
