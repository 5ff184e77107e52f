#include "tutti/function/outside_tensors.h"

#include "tutti/function/program.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {

// A reference without ownership also keeps another tensor from getting the same address.
void OutsideTensors::made(const Tensor& tensor) {
  auto* const impl = tensor.unsafeGetTensorImpl();
  if (!known_.contains(impl))
    known_.emplace(impl, Used{-1, {}, false, false, c10::weak_intrusive_ptr(tensor.getIntrusivePtr())});
}

bool OutsideTensors::use(const Tensor& tensor, int buffer) {
  auto* const impl = tensor.unsafeGetTensorImpl();
  if (known_.contains(impl)) return false;
  const bool had_gradient = is_leaf_with_gradient(tensor) && gradient_of(tensor).defined();
  known_.emplace(impl, Used{buffer, is_mesh_tensor(tensor) ? Geometry{} : geometry_of(tensor), tensor.requires_grad(),
                            had_gradient, c10::weak_intrusive_ptr(tensor.getIntrusivePtr())});
  return true;
}

}  // namespace tutti
