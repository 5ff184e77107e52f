#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// A shared handle to a layer: copies are the same layer with the same weights, as with LibTorch's module holders.
// Any torch::nn::Module (shared_ptr or holder) whose forward takes and returns one Tensor converts to a Layer.
// TF: tf.keras.layers.Layer
class Layer {
 public:
  explicit Layer(std::shared_ptr<LayerImpl> impl);

  template <class Module>
  requires requires(Module& module, const Tensor& x) {
    { module.forward(x) } -> std::convertible_to<Tensor>;
  }
  Layer(std::shared_ptr<Module> module)
      : Layer(std::static_pointer_cast<torch::nn::Module>(module),
              [raw = module.get()](const Tensor& x) -> Tensor { return raw->forward(x); }) {}

  template <class Holder>
  requires requires(const Holder& holder) { Layer(holder.ptr()); }
  Layer(const Holder& holder) : Layer(holder.ptr()) {}

  // Returns the layer's output for x. The first call builds the layer for x's shape.
  // Grad: flows to x and to the weights. Threads: the replicas of a strategy may call at once.
  // Throws: invalid_argument if x has the wrong rank, extents or dtype.
  Tensor operator()(const Tensor& x, const CallOptions& options = {}) const;

  // Makes the weights for inputs of this shape, once; later calls do nothing.
  void build(const Shape& input_shape) const { impl_->build_once(input_shape); }
  bool built() const { return impl_->built(); }

  // The output's shape; unknown extents are kUnknown.
  Shape compute_output_shape(const Shape& input_shape) const { return impl_->compute_output_shape(input_shape); }

  const std::string& name() const { return impl_->name(); }
  const std::vector<Weight>& weights() const { return impl_->weights(); }
  const std::vector<Tensor>& trainable_variables() const { return impl_->trainable_variables(); }

  // The weights' values as plain copies, and back; both in the order of weights().
  std::vector<Tensor> get_weights() const;
  void set_weights(const std::vector<Tensor>& values) const;

  // The regularization penalties of the weights, one scalar for each weight that has a regularizer.
  std::vector<Tensor> losses() const { return impl_->losses(); }

  // The module that holds the weights, for LibTorch's own functions.
  const std::shared_ptr<torch::nn::Module>& module() const { return impl_->module(); }

  const std::shared_ptr<LayerImpl>& impl() const { return impl_; }
  std::shared_ptr<Savable> savable() const { return impl_; }

 private:
  Layer(std::shared_ptr<torch::nn::Module> module, std::function<Tensor(const Tensor&)> forward);

  std::shared_ptr<LayerImpl> impl_;
};

}  // namespace tutti::keras::layers
