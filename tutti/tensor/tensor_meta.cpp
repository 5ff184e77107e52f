#include "tutti/tensor/tensor_meta.h"

namespace tutti {

TensorMeta TensorMeta::of(const Spec& spec, const Tensor& component) {
  return {.dtype = component.dtype(),
          .device = component.device(),
          .bits = component.key_set() & kLazyBits,
          .strides = spec.num_components == 1 ? at::DimVector(component.strides())
                                              : strides_like(spec.sizes, spec, component.sizes(), component.strides())};
}

}  // namespace tutti
