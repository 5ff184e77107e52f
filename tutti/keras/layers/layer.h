#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/keras/layers/layer_impl.h"
#include "tutti/keras/symbolic_tensor.h"

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

  // Returns the layer's output for x, or for several inputs. The first call builds the layer for their shapes.
  // Grad: flows to x and to the weights. Threads: the replicas of a strategy may call at once.
  // Without options, those of the call that this one is made in: see CallOptions.
  // Throws: invalid_argument for inputs of the wrong number, rank, extents or dtype, and for a layer of several
  // outputs.
  Tensor operator()(const Tensor& x) const;
  Tensor operator()(const Tensor& x, const CallOptions& options) const;
  Tensor operator()(const std::vector<Tensor>& inputs) const;
  Tensor operator()(const std::vector<Tensor>& inputs, const CallOptions& options) const;
  // All outputs of a layer that has several.
  std::vector<Tensor> outputs(const std::vector<Tensor>& inputs) const;
  std::vector<Tensor> outputs(const std::vector<Tensor>& inputs, const CallOptions& options) const;

  // The same in a graph of layers: builds the layer, and returns where its output will be.
  SymbolicTensor operator()(const SymbolicTensor& x) const;
  SymbolicTensor operator()(const std::vector<SymbolicTensor>& inputs) const;
  std::vector<SymbolicTensor> outputs(const std::vector<SymbolicTensor>& inputs) const;

  // Where its input and output are in the graph in which it was called: the one of a functional or sequential model
  // that is built. With them a model is cut: Model({.inputs = model.inputs(), .outputs =
  // {model.get_layer("last").output()}}). Throws: failed_precondition if it was not called, or more than once;
  // invalid_argument if there are several.
  SymbolicTensor input() const;
  SymbolicTensor output() const;

  // Which steps of the output count if `mask` says so of the input x: bool [N, steps], or undefined.
  Tensor compute_mask(const Tensor& x, const Tensor& mask = {}) const;

  // Makes the weights for an input of this shape, or for several inputs, once; later calls do nothing.
  void build(const Shape& input_shape) const { impl_->build_once({input_shape}); }
  void build_all(const std::vector<Shape>& input_shapes) const { impl_->build_once(input_shapes); }
  bool built() const { return impl_->built(); }

  // The output's shape; unknown extents are kUnknown.
  Shape compute_output_shape(const Shape& input_shape) const { return impl_->compute_output_shapes({input_shape})[0]; }

  const std::string& name() const { return impl_->name(); }
  const std::vector<Weight>& weights() const { return impl_->weights(); }
  std::vector<Tensor> trainable_variables() const { return impl_->trainable_variables(); }

  // In which dtype it has its weights and computes, and those in it. Throws: failed_precondition once it is built in
  // another one. TF: the argument `dtype` of a layer.
  void set_dtype_policy(DTypePolicy policy) const { impl_->set_dtype_policy(policy); }
  DTypePolicy dtype_policy() const { return impl_->dtype_policy(); }

  // Freezes or thaws the weights, those of the layers in it too, made already or not. TF: Layer.trainable.
  void set_trainable(bool trainable) const { impl_->set_trainable(trainable); }
  bool trainable() const { return impl_->trainable(); }

  // The weights' values as plain copies, and back; both in the order of weights().
  std::vector<Tensor> get_weights() const;
  void set_weights(const std::vector<Tensor>& values) const;

  // The regularization penalties of the weights that are trained, one scalar for each that has a regularizer.
  std::vector<Tensor> losses() const { return impl_->losses(); }

  // The module that holds the weights, for LibTorch's own functions.
  const std::shared_ptr<torch::nn::Module>& module() const { return impl_->module(); }

  const std::shared_ptr<LayerImpl>& impl() const { return impl_; }
  std::shared_ptr<Savable> savable() const { return impl_; }

 protected:
  // One that tells what it was made from.
  template <class Options>
  Layer(std::shared_ptr<LayerImpl> impl, const Options& options) : Layer(std::move(impl)) {
    impl_->tell_made_from(options);
  }

 private:
  Layer(std::shared_ptr<torch::nn::Module> module, std::function<Tensor(const Tensor&)> forward);

  Tensor only(std::vector<Tensor> outputs) const;
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, const CallOptions* options) const;
  std::shared_ptr<const Node> only_call(const char* function) const;

  std::shared_ptr<LayerImpl> impl_;
};

}  // namespace tutti::keras::layers
