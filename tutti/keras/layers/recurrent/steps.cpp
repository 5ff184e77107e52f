#include "tutti/core/str.h"
#include "tutti/keras/layers/recurrent/steps_internal.h"

namespace tutti::keras::layers {

Steps steps_of(const LayerImpl& layer, const Tensor& x, const Tensor& mask, bool backwards) {
  if (x.size(1) == 0) layer.refuse(str("the input has shape ", to_string(x.sizes()), "; it must have a step"));
  if (const Shape steps{x.size(0), x.size(1)}; mask.defined() && mask.sizes() != steps)
    layer.refuse(str("the mask has shape ", to_string(mask.sizes()), "; it must be ", to_string(steps)));
  if (!backwards) return {x, mask};
  return {x.flip(1), mask.defined() ? mask.flip(1) : mask};
}

}  // namespace tutti::keras::layers
