#include "tutti/keras/layers/merging/concatenate.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class ConcatenateImpl : public LayerImpl {
 public:
  explicit ConcatenateImpl(const ConcatenateOptions& options)
      : LayerImpl("Concatenate", options.name), axis_(options.axis) {
    if (axis_ == 0) refuse("axis 0 is the batch; samples cannot be joined");
  }

  void build_all(const std::vector<Shape>& input_shapes) override { (void)compute_output_shapes(input_shapes); }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions&) const override {
    (void)compute_output_shapes(shapes_of(inputs));
    return {at::cat(inputs, axis_)};
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override {
    if (input_shapes.empty()) refuse("takes a list of inputs, not none");
    Shape joined = input_shapes[0];
    const size_t at = position(joined);
    for (size_t i = 1; i < input_shapes.size(); ++i) {
      const Shape& shape = input_shapes[i];
      bool fits = shape.size() == joined.size();
      for (size_t axis = 0; fits && axis < joined.size(); ++axis)
        fits = axis == at || shape[axis] == joined[axis] || shape[axis] == kUnknown || joined[axis] == kUnknown;
      if (!fits)
        refuse(str("the inputs have shapes ", to_string(joined), " and ", to_string(shape),
                   "; they must be equal but for axis ", axis_));
      joined[at] = joined[at] == kUnknown || shape[at] == kUnknown ? kUnknown : joined[at] + shape[at];
    }
    return {joined};
  }

  bool supports_masking() const override { return true; }

  // A step counts if it does in any input: one without a mask counts whole.
  std::vector<Tensor> compute_masks(const std::vector<Tensor>& inputs,
                                    const std::vector<Tensor>& masks) const override {
    if (std::ranges::none_of(masks, &Tensor::defined)) return {};
    std::vector<Tensor> spread;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor mask = i < masks.size() ? masks[i] : Tensor();
      while (mask.defined() && mask.dim() < inputs[i].dim()) mask = mask.unsqueeze(-1);
      spread.push_back(mask.defined() ? mask.expand_as(inputs[i]) : at::ones_like(inputs[i], at::kBool));
    }
    return {at::cat(spread, axis_).any(-1)};
  }

 private:
  size_t position(const Shape& shape) const {
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    if (axis < 1 || axis >= rank)
      refuse(str("the inputs have shape ", to_string(shape), ", which has no axis ", axis_));
    return static_cast<size_t>(axis);
  }

  int64_t axis_;
};

}  // namespace

Concatenate::Concatenate(const ConcatenateOptions& options)
    : Layer(std::make_shared<ConcatenateImpl>(options), options) {}

}  // namespace tutti::keras::layers
