#include "tutti/keras/layers/merging/dot.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>

#include <array>

#include "tutti/core/str.h"
#include "tutti/keras/layers/widened_internal.h"

namespace tutti::keras::layers {
namespace {

// To length 1 along the axis; a vector of zeros stays.
Tensor normalized(const Tensor& x, int64_t axis) {
  constexpr double kSmallestNorm = 1e-7;
  const Tensor wide = widened(x), sum = wide.square().sum(axis, /*keepdim=*/true);
  return (wide * sum.clamp_min(kSmallestNorm * kSmallestNorm).rsqrt()).to(x.scalar_type());
}

class DotImpl : public LayerImpl {
 public:
  explicit DotImpl(const DotOptions& options) : LayerImpl("Dot", options.name), options_(options) {
    if (options_.first_axis == 0 || options_.second_axis == 0) refuse("axis 0 is the batch; it cannot be summed over");
  }

  void build_all(const std::vector<Shape>& input_shapes) override { (void)compute_output_shapes(input_shapes); }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions&) const override {
    const std::vector<Shape> shapes = shapes_of(inputs);
    const Shape output_shape = compute_output_shapes(shapes)[0];
    const auto [a, b] = axes(shapes);
    const Tensor first = options_.normalize ? normalized(inputs[0], a) : inputs[0];
    const Tensor second = options_.normalize ? normalized(inputs[1], b) : inputs[1];
    const Tensor rows = first.movedim(a, -1).unsqueeze(1).flatten(1, -2);  // [N, a, k]
    const Tensor columns = second.movedim(b, 1).unsqueeze(-1).flatten(2);  // [N, k, b]
    return {at::matmul(rows, columns).reshape(output_shape)};
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override {
    if (input_shapes.size() != 2) refuse(str("takes two inputs, not ", input_shapes.size()));
    const auto [a, b] = axes(input_shapes);
    const int64_t first = input_shapes[0][static_cast<size_t>(a)], second = input_shapes[1][static_cast<size_t>(b)];
    if (first != second && first != kUnknown && second != kUnknown)
      refuse(str("the inputs have shapes ", to_string(input_shapes[0]), " and ", to_string(input_shapes[1]), "; axes ",
                 options_.first_axis, " and ", options_.second_axis, " have ", first, " and ", second, " elements"));
    Shape output_shape = input_shapes[0];
    output_shape.erase(output_shape.begin() + a);
    for (int64_t axis = 1; axis < static_cast<int64_t>(input_shapes[1].size()); ++axis)
      if (axis != b) output_shape.push_back(input_shapes[1][static_cast<size_t>(axis)]);
    if (output_shape.size() == 1) output_shape.push_back(1);
    return {output_shape};
  }

  bool supports_masking() const override { return true; }
  std::vector<Tensor> compute_masks(const std::vector<Tensor>&, const std::vector<Tensor>&) const override {
    return {};
  }

 private:
  std::array<int64_t, 2> axes(const std::vector<Shape>& shapes) const {
    const auto axis_of = [&](const Shape& shape, int64_t axis) {
      const auto rank = static_cast<int64_t>(shape.size());
      const int64_t position = axis < 0 ? axis + rank : axis;
      if (position < 1 || position >= rank)
        refuse(str("an input has shape ", to_string(shape), ", which has no axis ", axis, " behind the batch"));
      return position;
    };
    return {axis_of(shapes[0], options_.first_axis), axis_of(shapes[1], options_.second_axis)};
  }

  DotOptions options_;
};

}  // namespace

Dot::Dot(const DotOptions& options) : Layer(std::make_shared<DotImpl>(options), options) {}

}  // namespace tutti::keras::layers
