#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/layers/formatted_layer_internal.h"

namespace tutti::keras::layers {
namespace {

// f(), whose errors say how to read their shapes.
template <class F>
auto with_order_of_shapes(DataFormat format, const F& f) {
  if (format == DataFormat::channels_last) return f();
  try {
    return f();
  } catch (const Error& error) {
    throw Error(error.code(),
                str(error.what(), " (data_format is channels_first; shapes are told here with the channels last)"));
  }
}

}  // namespace

Shape FormattedImpl::with_channels_last(Shape shape) const {
  if (is_moved(shape.size())) {
    const auto channels = shape.end() - static_cast<std::ptrdiff_t>(spatial_rank_ + 1);
    std::rotate(channels, channels + 1, shape.end());
  }
  return shape;
}

void FormattedImpl::build_all(const std::vector<Shape>& input_shapes) {
  std::vector<Shape> shapes;
  for (const Shape& shape : input_shapes) shapes.push_back(with_channels_last(shape));
  with_order_of_shapes(data_format_, [&] { LayerImpl::build_all(shapes); });
}

std::vector<Tensor> FormattedImpl::call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const {
  const auto channels = -static_cast<int64_t>(spatial_rank_ + 1);
  std::vector<Tensor> views;
  for (const Tensor& x : inputs) views.push_back(is_moved(static_cast<size_t>(x.dim())) ? x.movedim(channels, -1) : x);
  std::vector<Tensor> outputs = with_order_of_shapes(data_format_, [&] { return LayerImpl::call_all(views, options); });
  for (Tensor& y : outputs)
    if (y.dim() == inputs[0].dim() && is_moved(static_cast<size_t>(y.dim()))) y = y.movedim(-1, channels);
  return outputs;
}

std::vector<Shape> FormattedImpl::compute_output_shapes(const std::vector<Shape>& input_shapes) const {
  if (input_shapes.size() != 1) refuse(str("takes one input, not ", input_shapes.size()));
  Shape shape =
      with_order_of_shapes(data_format_, [&] { return compute_output_shape(with_channels_last(input_shapes[0])); });
  if (shape.size() == input_shapes[0].size() && is_moved(shape.size()))
    std::rotate(shape.end() - static_cast<std::ptrdiff_t>(spatial_rank_ + 1), shape.end() - 1, shape.end());
  return {shape};
}

}  // namespace tutti::keras::layers
