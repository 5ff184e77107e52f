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
    CallOptions of_steps = options;
    of_steps.masks = {mask_of_steps(x, options.mask())};
    return layer_->outputs({x.flatten(0, 1)}, of_steps)[0].unflatten(0, {x.size(0), x.size(1)});
  }

  // What the layer makes of it; if nothing, a step counts where anything in it does.
  std::vector<Tensor> compute_masks(const std::vector<Tensor>& inputs,
                                    const std::vector<Tensor>& masks) const override {
    if (masks.empty() || !masks[0].defined()) return {};
    const Tensor& x = inputs[0];
    const std::vector<Tensor> made = layer_->compute_masks({x.flatten(0, 1)}, {mask_of_steps(x, masks[0])});
    if (!made.empty() && made[0].defined()) return {made[0].unflatten(0, {x.size(0), x.size(1)})};
    return {masks[0].dim() > 2 ? masks[0].flatten(2).any(2) : masks[0]};
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

  // The mask of all steps as one batch. One [batch, steps] hides whole samples of that batch: it is for a layer that
  // takes vectors, while a layer of sequences has no place for it.
  Tensor mask_of_steps(const Tensor& x, const Tensor& mask) const {
    if (!mask.defined()) return mask;
    if (mask.dim() < 2 || mask.sizes().slice(0, 2) != x.sizes().slice(0, 2))
      refuse(tutti::str("the mask has shape ", to_string(mask.sizes()), "; it must be [", x.size(0), ", ", x.size(1),
                        "], or have the axes of a step behind that"));
    return mask.dim() == 2 && x.dim() > 3 ? Tensor() : mask.flatten(0, 1);
  }

  std::shared_ptr<LayerImpl> layer_;
};

}  // namespace

TimeDistributed::TimeDistributed(const Layer& layer, const TimeDistributedOptions& options)
    : Layer(std::make_shared<TimeDistributedImpl>(layer.impl(), options), options) {}

}  // namespace tutti::keras::layers
