#include "tutti/keras/layers/core/input_layer.h"

#include <utility>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class InputLayerImpl : public LayerImpl {
 public:
  explicit InputLayerImpl(const InputLayerOptions& options)
      : LayerImpl("InputLayer", options.name), shape_(options.shape) {
    for (const int64_t extent : shape_)
      if (extent < 0 && extent != kUnknown)
        refuse(str("the shape is ", to_string(shape_), "; extents are at least 0, or kUnknown"));
    shape_.insert(shape_.begin(), options.batch);
  }

  Tensor call(const Tensor& x, const CallOptions&) const override {
    (void)compute_output_shape(x.sizes().vec());
    return x;
  }

  // Of no input: the shape that is asked for.
  Shape compute_output_shape(const Shape& input_shape) const override {
    if (input_shape.empty()) return shape_;
    bool fits = input_shape.size() == shape_.size();
    for (size_t axis = 0; fits && axis < shape_.size(); ++axis)
      fits = shape_[axis] == input_shape[axis] || shape_[axis] == kUnknown || input_shape[axis] == kUnknown;
    if (!fits) refuse(str("the input has shape ", to_string(input_shape), "; the model takes ", to_string(shape_)));
    return input_shape;
  }

  bool supports_masking() const override { return true; }

 private:
  Shape shape_;
};

}  // namespace

InputLayer::InputLayer(const InputLayerOptions& options) : Layer(std::make_shared<InputLayerImpl>(options), options) {}

}  // namespace tutti::keras::layers
