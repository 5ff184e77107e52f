#include <ATen/TensorOperators.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/mixing_layer_internal.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"

namespace tutti::keras::layers {

std::vector<Shape> MixingLayerImpl::compute_output_shapes(const std::vector<Shape>& input_shapes) const {
  if (input_shapes.size() != 2)
    refuse(tutti::str("got ", input_shapes.size(), " input", input_shapes.size() == 1 ? "" : "s",
                      "; images and their labels are mixed together: outputs({images, labels})"));
  if (input_shapes[0].size() != 4 || input_shapes[1].empty() || input_shapes[0][0] != input_shapes[1][0])
    refuse(tutti::str("the images have shape ", to_string(input_shapes[0]), ", the labels ", to_string(input_shapes[1]),
                      "; batches of as many of both are required, the images' of 4 axes"));
  return input_shapes;
}

std::vector<Tensor> MixingLayerImpl::call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const {
  const Tensor images = floating(inputs[0]), &labels = inputs.back();
  (void)compute_output_shapes(inputs.size() == 2 ? std::vector{images.sizes().vec(), labels.sizes().vec()}
                                                 : std::vector<Shape>(inputs.size(), images.sizes().vec()));
  if (!options.training) return {images, labels};
  if (!labels.is_floating_point())
    refuse(tutti::str("the labels have dtype ", at::toString(labels.scalar_type()),
                      "; only floating-point ones can be mixed: make class numbers one-hot, as CategoryEncoding does"));
  RandomDraws draws(images, seed_, (*num_calls_)++);
  if (images.numel() == 0) return {images, labels};
  const Tensor partners = draws.uniform({0, 1}).argsort();
  const Mixed mixed = mix(images, images.index_select(0, partners), draws);
  Shape column(static_cast<size_t>(labels.dim()), 1);
  column[0] = -1;
  const Tensor own = mixed.weights.to(labels.scalar_type()).reshape(column);
  return {mixed.images, own * labels + (1 - own) * labels.index_select(0, partners)};
}

}  // namespace tutti::keras::layers
