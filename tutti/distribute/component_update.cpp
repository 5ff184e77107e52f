#include "tutti/distribute/component_update.h"

#include <ATen/core/grad_mode.h>

#include "tutti/tensor/mesh_gradient.h"
#include "tutti/tensor/view.h"

namespace tutti::component_update {

int count(const VariableAt& at, const std::vector<Device>& devices) {
  if (const int replica = ThreadView::current().function_of(); replica >= 0)
    throw Error(ErrorCode::invalid_argument,
                str("update: called at ", to_string(at.location), " by replica ", replica,
                    " with values for every replica; in a replica's function pass its own"),
                at.location);
  if (!is_mesh_tensor(at.variable)) return 1;
  auto& impl = mesh_impl(at.variable);
  if (has_read_copies(at.variable)) return 1;  // the value that replicas copy
  const auto& own = impl.mesh_shape()->mesh.devices();
  if (own != devices)
    throw Error(ErrorCode::failed_precondition,
                str("update: at ", to_string(at.location), " a strategy on ", str_list(devices), " updates ",
                    impl.require_replica_values().describe(), ", which lies on ", str_list(own),
                    "; call update() of the strategy that made it"),
                at.location);
  return static_cast<int>(own.size());
}

void for_each(const Tensor& variable, FunctionRef<void(const Tensor& component, int replica)> f) {
  const at::NoGradGuard no_grad;
  const GlobalViewGuard global_view;
  if (!is_mesh_tensor(variable)) return f(variable, 0);
  auto& impl = mesh_impl(variable);
  if (has_read_copies(variable)) {
    f(impl.write()[0], 0);
    impl.bump_version();
    impl.finish_write();
    return;
  }
  const auto components = replica_components(variable);
  for (size_t r = 0; r < components.size(); ++r) f(components[r], static_cast<int>(r));
  if (!impl.is_inference()) impl.bump_version();  // a graph that saved the old value must not use the new one
}

}  // namespace tutti::component_update
