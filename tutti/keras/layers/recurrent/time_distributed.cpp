#include "tutti/keras/layers/recurrent/time_distributed.h"

#include <memory>

#include "tutti/core/str.h"

namespace tutti::keras::layers {
namespace {

class TimeDistributedImpl : public LayerImpl {
 public:
  TimeDistributedImpl(std::shared_ptr<LayerImpl> layer, const TimeDistributedOptions& options)
      : LayerImpl("TimeDistributed", options.name), layer_(std::move(layer)) {
    adopt(layer_);
  }

  void build(const Shape& input_shape) override {
    layer_->build_once({shape_of_step(input_shape)});
    track_layer(layer_);
  }

  Tensor call(const Tensor& x, const CallOptions& options) const override {
    (void)shape_of_step(x.sizes().vec());
    CallOptions unmasked = options;
    unmasked.masks.clear();
    return layer_->outputs({x.flatten(0, 1)}, unmasked)[0].unflatten(0, {x.size(0), x.size(1)});
  }

  Shape compute_output_shape(const Shape& input_shape) const override {
    Shape shape = layer_->compute_output_shapes({shape_of_step(input_shape)})[0];
    shape.insert(shape.begin() + 1, input_shape[1]);
    return shape;
  }

  bool supports_masking() const override { return true; }
  InputCast input_cast() const override { return InputCast::none; }

 private:
  Shape shape_of_step(Shape shape) const {
    if (shape.size() < 3)
      refuse(tutti::str("the input has shape ", to_string(shape), "; it must be [batch, steps, ...]"));
    shape.erase(shape.begin() + 1);
    return shape;
  }

  std::shared_ptr<LayerImpl> layer_;
};

}  // namespace

TimeDistributed::TimeDistributed(const Layer& layer, const TimeDistributedOptions& options)
    : Layer(std::make_shared<TimeDistributedImpl>(layer.impl(), options), options) {}

}  // namespace tutti::keras::layers
