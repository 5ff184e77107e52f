#include "tutti/tensor/variable_methods.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/VariableHooksInterface.h>
#include <c10/util/MaybeOwned.h>

#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using at::TensorBase;
using at::impl::VariableHooksInterface;

// A reference to LibTorch's pointer to a node, which is a std::shared_ptr in LibTorch 2.11.
using GradFn = decltype(std::declval<const VariableHooksInterface&>().grad_fn(std::declval<const TensorBase&>()));

// Marks the positions of hooks that a replica registered: they are in another list than the variable's.
constexpr unsigned kOfReplica = 1u << 31;

bool in_replica(const TensorBase& tensor) { return in_replica_view() && is_mesh_tensor(*at::TensorRef(tensor)); }

MeshMeta* variable_in_replica(const TensorBase& tensor) {
  const ThreadView& view = ThreadView::current();
  auto& impl = mesh_impl(Tensor(tensor));
  require_own_mesh(impl, view);
  return variable_of(impl, view);
}

// What a thread sees of a tensor: mostly the tensor itself, and LibTorch asks very often.
using Seen = c10::MaybeOwned<TensorBase>;

class VariableMethods final : public VariableHooksInterface {
 public:
  explicit VariableMethods(const VariableHooksInterface& libtorch) : libtorch_(libtorch) {}

  TensorBase tensor_data(const TensorBase& self) const override {
    const Seen tensor = seen(self);
    tell_recorder(*tensor);
    return libtorch_.tensor_data(*tensor);
  }
  TensorBase variable_data(const TensorBase& self) const override {
    const Seen tensor = writable(self);
    tell_recorder(*tensor);
    return libtorch_.variable_data(*tensor);
  }
  TensorBase data(const TensorBase& self) const override {
    const Seen tensor = writable(self);
    return libtorch_.data(*tensor);
  }
  int64_t _version(const TensorBase& self) const override {
    const Seen tensor = seen(self);
    return libtorch_._version(*tensor);
  }
  void retain_grad(const TensorBase& self) const override {
    const Seen tensor = seen(self);
    libtorch_.retain_grad(*tensor);
  }

  unsigned _register_hook(const TensorBase& self, std::function<TensorBase(const TensorBase&)> hook) const override {
    const Seen tensor = seen(self);
    const unsigned position = libtorch_._register_hook(*tensor, std::move(hook));
    return in_replica(self) ? position | kOfReplica : position;
  }

  void remove_hook(const TensorBase& self, unsigned position) const override {
    const bool replicas = is_mesh_tensor(Tensor(self)) && (position & kOfReplica);
    if (is_mesh_tensor(Tensor(self)) && replicas != in_replica(self))
      throw Error(ErrorCode::failed_precondition,
                  str("remove_hook: the hook was registered ", replicas ? "by a replica" : "outside of run",
                      "; remove it there"));
    const Seen tensor = seen(self);
    libtorch_.remove_hook(*tensor, replicas ? position & ~kOfReplica : position);
  }

  void requires_grad_(const TensorBase& self, bool requires_grad) const override {
    if (!in_replica(self)) {
      libtorch_.requires_grad_(self, requires_grad);
      if (!is_mesh_tensor(Tensor(self))) return;
      if (MeshMeta* meta = mesh_impl(Tensor(self)).mesh_meta()) meta->set_requires_grad_of_all();
      return;
    }
    if (MeshMeta* variable = variable_in_replica(self))
      variable->set_requires_grad_in(ThreadView::current(), requires_grad);
    else if (requires_grad)
      throw Error(ErrorCode::failed_precondition,
                  str("requires_grad_: called by replica ", ThreadView::current().replica,
                      " of a mesh tensor that is a constant for all of them; call it outside of run, or of detach()"));
  }

  void set_data(const TensorBase& self, const TensorBase& data) const override {
    if (!in_replica(self)) return libtorch_.set_data(self, data);
    const Tensor variable(self);
    if (has_read_copies(variable))
      throw Error(ErrorCode::failed_precondition,
                  str("set_data: replica ", ThreadView::current().replica,
                      " writes to a parameter of which it has a read copy; change it with assign()"));
    mesh_impl(variable).require_replica_values().replace(local(Tensor(data)), ThreadView::current());
    if (!variable.is_inference()) variable.unsafeGetTensorImpl()->bump_version();
  }

  GradFn grad_fn(const TensorBase& self) const override { return libtorch_.grad_fn(self); }
  bool is_view(const TensorBase& self) const override { return libtorch_.is_view(self); }
  const TensorBase& base(const TensorBase& self) const override { return libtorch_.base(self); }
  const std::string& name(const TensorBase& self) const override { return libtorch_.name(self); }
  bool is_leaf(const TensorBase& self) const override { return libtorch_.is_leaf(self); }
  int64_t output_nr(const TensorBase& self) const override { return libtorch_.output_nr(self); }
  bool retains_grad(const TensorBase& self) const override { return libtorch_.retains_grad(self); }
  std::optional<c10::ScalarType> grad_dtype(const TensorBase& self) const override {
    return libtorch_.grad_dtype(self);
  }
  void set_grad_dtype(const TensorBase& self, const std::optional<c10::ScalarType>& dtype) const override {
    libtorch_.set_grad_dtype(self, dtype);
  }
  void _backward(const Tensor& self, at::TensorList inputs, const std::optional<Tensor>& gradient,
                 std::optional<bool> keep_graph, bool create_graph) const override {
    libtorch_._backward(self, inputs, gradient, keep_graph, create_graph);
  }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                               torch::jit::Stack* stack) const override {
    libtorch_.basic_autograd_not_implemented_fallback(op, keys, stack);
  }

 private:
  // The tensor as the thread sees it.
  static Seen seen(const TensorBase& self) {
    return in_replica(self) ? Seen::owned(local(Tensor(self))) : Seen::borrowed(self);
  }

  // The same, but of a read copy the mesh tensor, to which writes are refused.
  static Seen writable(const TensorBase& self) {
    return has_read_copies(*at::TensorRef(self)) ? Seen::borrowed(self) : seen(self);
  }

  static void tell_recorder(const TensorBase& tensor) {
    if (auto* recorder = CallRecorder::current(); recorder && !in_replica(tensor))
      recorder->gives_data(*at::TensorRef(tensor));
  }

  const VariableHooksInterface& libtorch_;
};

}  // namespace

void register_variable_methods() {
  at::impl::SetVariableHooks(new VariableMethods(*at::impl::GetVariableHooks()));  // lives as long as LibTorch
}

}  // namespace tutti
