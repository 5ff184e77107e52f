#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/constraints.h"
#include "tutti/keras/initializers.h"
#include "tutti/keras/regularizers.h"
#include "tutti/keras/shape.h"
#include "tutti/tensor/savable.h"

namespace torch::nn {
class Module;
}

namespace tutti::keras::layers {

struct Weight {
  std::string name;  // "kernel"; in a model "dense/kernel"
  Tensor value;
  bool trainable = true;
  std::optional<regularizers::Regularizer> regularizer = {};
  std::optional<constraints::Constraint> constraint = {};
};

struct WeightOptions {
  initializers::Initializer initializer = initializers::GlorotUniform();
  std::optional<regularizers::Regularizer> regularizer = {};
  std::optional<constraints::Constraint> constraint = {};
  bool trainable = true;
};

struct CallOptions {
  bool training = false;
};

// What stands behind a Layer; derive from it to write one. Its weights live in a torch::nn::Module, so that everything
// that LibTorch does with a module (saving, moving, listing) can be done with module().
class LayerImpl : public Savable {
 public:
  // `type` is the class's name ("MaxPooling2D"); an empty `name` becomes "max_pooling2d". Without `module` the weights
  // get a new one.
  LayerImpl(std::string type, std::string name, std::shared_ptr<torch::nn::Module> module = nullptr);
  LayerImpl(const LayerImpl&) = delete;
  LayerImpl& operator=(const LayerImpl&) = delete;

  // Makes the weights for inputs of this shape; build_once calls it. The base class only checks the shape.
  virtual void build(const Shape& input_shape);

  // Const, because all replicas of a strategy call one layer at once: no member may change.
  virtual Tensor call(const Tensor& x, const CallOptions& options) const = 0;

  // The shape of call(x) for x of `input_shape`; unknown extents are kUnknown. Throws invalid_argument if x won't do.
  virtual Shape compute_output_shape(const Shape& input_shape) const = 0;

  // The weights in the order of Keras's get_weights; trainable_variables() are those that are trainable.
  const std::vector<Weight>& weights() const { return weights_; }
  const std::vector<Tensor>& trainable_variables() const { return trainable_variables_; }

  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  const std::string& type() const { return type_; }
  const std::string& name() const { return name_; }
  bool has_default_name() const { return has_default_name_; }
  void rename(std::string name);

  // Builds unless it is done already. In a replica's function all replicas meet and it is done once, in the scope.
  void build_once(const Shape& input_shape);
  bool built() const { return built_; }

  // The regularization penalties of the weights, one scalar for each weight that has a regularizer.
  std::vector<Tensor> losses() const;

  // The weights, by their names. Throws: failed_precondition before they are made.
  void visit_state(StateVisitor& visitor) override;

  // Throws an invalid_argument error of this layer: "dense: …".
  [[noreturn]] void refuse(const std::string& message) const;

 protected:
  // Makes, registers and returns a weight. What surrounds the call (a strategy's scope) decides where it lives.
  Tensor add_weight(const std::string& name, const Shape& shape, const WeightOptions& options);

  // Lists a weight that a module of its own already holds.
  void track(Weight weight);

  // Registers the module of `layer`, which is built, and lists its weights as "layer/weight".
  void track_layer(const LayerImpl& layer);

 private:
  std::string type_;
  std::string name_;
  bool has_default_name_;
  bool built_ = false;
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<Weight> weights_;
  std::vector<Tensor> trainable_variables_;
};

}  // namespace tutti::keras::layers
