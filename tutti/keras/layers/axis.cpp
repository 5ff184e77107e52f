#include "tutti/keras/layers/axis.h"

#include <algorithm>

#include "tutti/core/str.h"

namespace tutti::keras::layers {

int64_t axis_of(const LayerImpl& layer, int64_t axis, at::IntArrayRef shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis >= rank)
    layer.refuse(str("the input has shape ", to_string(shape), ", which has no axis ", axis));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> axes_of(const LayerImpl& layer, at::IntArrayRef axes, at::IntArrayRef shape) {
  std::vector<int64_t> ascending;
  for (const int64_t axis : axes) ascending.push_back(axis_of(layer, axis, shape));
  std::ranges::sort(ascending);
  if (ascending.empty() || std::ranges::adjacent_find(ascending) != ascending.end())
    layer.refuse(str("axis is ", str_list(axes), "; it must name at least one axis of an input of shape ",
                     to_string(shape), ", and none twice"));
  return ascending;
}

Shape broadcast_shape(at::IntArrayRef axes, at::IntArrayRef shape) {
  Shape result(shape.size(), 1);
  for (const int64_t axis : axes) result[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  return result;
}

}  // namespace tutti::keras::layers
