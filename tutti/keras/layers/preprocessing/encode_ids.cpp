#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "tutti/keras/layers/preprocessing/encode_ids_internal.h"

namespace tutti::keras::layers {

Shape encoded_shape(const Shape& ids, OutputMode mode, int64_t num_columns) {
  if (mode == OutputMode::int_) return ids;
  Shape shape = ids;
  const bool adds_axis = mode == OutputMode::one_hot ? shape.size() < 2 || shape.back() != 1 : shape.empty();
  if (adds_axis) shape.push_back(1);
  shape.back() = num_columns;
  return shape;
}

Tensor encode_ids(const Tensor& ids, const IdEncoding& encoding) {
  const auto& [mode, num_columns, dtype, weights] = encoding;
  if (mode == OutputMode::int_) return ids;
  const Shape shape = encoded_shape(ids.sizes().vec(), mode, num_columns);
  const bool weighs_ids = mode == OutputMode::count && weights.defined();
  Shape sample_shape(shape.begin(), shape.end() - 1);
  sample_shape.push_back(mode == OutputMode::one_hot || ids.dim() == 0 ? 1 : ids.size(-1));
  const Tensor samples = ids.reshape(sample_shape);
  const Tensor counted = weighs_ids ? weights.reshape(sample_shape) : (samples != kNoId).to(dtype);
  Tensor columns = at::zeros(shape, counted.options()).scatter_add_(-1, samples.clamp_min(0), counted);
  if (mode == OutputMode::multi_hot) columns.clamp_max_(1);
  return mode == OutputMode::tf_idf ? columns * weights : columns;
}

}  // namespace tutti::keras::layers
