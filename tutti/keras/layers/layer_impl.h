#pragma once

#include <ATen/core/Tensor.h>

#include <any>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/collectives/reduce_op.h"
#include "tutti/core/tensor_fwd.h"
#include "tutti/keras/constraints.h"
#include "tutti/keras/dtype_policy.h"
#include "tutti/keras/initializers.h"
#include "tutti/keras/regularizers.h"
#include "tutti/keras/shape.h"
#include "tutti/tensor/savable.h"

namespace torch::nn {
class Module;
}

namespace tutti::keras {
struct Node;
class WeightSource;
}  // namespace tutti::keras

namespace tutti::keras::layers {

class LayerImpl;

struct Weight {
  std::string name;  // "kernel"; in a model "dense/kernel"
  Tensor value;
  bool trainable = true;  // as it was made; set_trainable(false) freezes it beside
  std::optional<regularizers::Regularizer> regularizer = {};
  std::optional<constraints::Constraint> constraint = {};
  const LayerImpl* layer = nullptr;  // that made it
};

struct WeightOptions {
  initializers::Initializer initializer = initializers::GlorotUniform();
  std::optional<regularizers::Regularizer> regularizer = {};
  std::optional<constraints::Constraint> constraint = {};
  bool trainable = true;
};

// What layers added to the loss of a shard: a sum over its samples, or their mean.
using AddedLosses = std::vector<std::pair<ReduceOp, Tensor>>;

// How a layer is called. A layer that is called in the call of another one, without options, gets the other's training
// flag and added_losses, and each input's own mask, if it is the output of a layer.
struct CallOptions {
  bool training = false;
  std::vector<Tensor> masks = {};       // one for each input, bool [N, steps]; an undefined or absent one hides nothing
  AddedLosses* added_losses = nullptr;  // where add_loss leaves them; null: nobody asks

  Tensor mask(size_t input = 0) const { return input < masks.size() ? masks[input] : Tensor(); }
};

// Which inputs are cast to the dtype that a layer computes in.
enum class InputCast {
  none,      // ids and the like
  floating,  // whole numbers stay what they are
  numbers,   // whole numbers too, such as those of an image
};

// A tensor and which of its steps count: what flows between the layers of a model.
struct MaskedTensor {
  Tensor tensor;
  Tensor mask = {};  // bool [N, steps]; undefined: all count
};

// What stands behind a Layer; derive from it to write one. Its weights live in a torch::nn::Module, so that everything
// that LibTorch does with a module (saving, moving, listing) can be done with module().
//
// A layer of one input and one output overrides call, build if it has weights, and compute_output_shape unless that is
// found by calling it on zeros; one of several overrides call_all, build_all and compute_output_shapes likewise. Calls
// are const, because all replicas of a strategy call one layer at once: no member may change.
class LayerImpl : public Savable {
 public:
  // `type` is the class's name ("MaxPooling2D"); an empty `name` becomes "max_pooling2d". Without `module` the weights
  // get a new one.
  LayerImpl(std::string type, std::string name, std::shared_ptr<torch::nn::Module> module = nullptr);
  LayerImpl(const LayerImpl&) = delete;
  LayerImpl& operator=(const LayerImpl&) = delete;

  // Makes the weights for inputs of these shapes; build_once calls it.
  virtual void build_all(const std::vector<Shape>& input_shapes);
  virtual std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const;
  // The shapes of the outputs; unknown extents are kUnknown. Throws invalid_argument if the inputs won't do.
  virtual std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const;

  // Whether a mask of the input is one of the output too, or the layer makes something of it.
  virtual bool supports_masking() const { return false; }
  // The masks of the outputs, or none at all. By itself that of the first input, if the layer supports masking.
  virtual std::vector<Tensor> compute_masks(const std::vector<Tensor>& inputs, const std::vector<Tensor>& masks) const;

  // Calls the layer, which is built, as a model does: casts the inputs as the dtype policy says, and passes masks on.
  virtual std::vector<MaskedTensor> forward(const std::vector<MaskedTensor>& inputs, const CallOptions& options) const;
  // The same from and to tensors alone; the masks are those of the options.
  std::vector<Tensor> outputs(const std::vector<Tensor>& inputs, const CallOptions& options) const;

  // The weights in the order of Keras's get_weights.
  const std::vector<Weight>& weights() const { return weights_; }
  // Of them, those that training changes: made trainable, and in no layer that is frozen.
  std::vector<Weight> trained_weights() const;
  std::vector<Tensor> trainable_variables() const;

  // Freezes or thaws the weights of this layer and of those in it, made already or not; takes effect at once.
  void set_trainable(bool trainable);
  bool trainable() const { return trainable_; }

  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  const std::string& type() const { return type_; }
  const std::string& name() const { return name_; }
  bool has_default_name() const { return has_default_name_; }
  DTypePolicy dtype_policy() const { return dtype_policy_; }
  // The options that it was made from, DenseOptions of a Dense, as files of models say them; empty where nobody told.
  const std::any& made_from() const { return made_from_; }
  void tell_made_from(std::any options) { made_from_ = std::move(options); }
  // Of this layer and of those in it. Throws: failed_precondition where weights are made already in another dtype.
  void set_dtype_policy(DTypePolicy policy);
  // Throws: invalid_argument, as the constructor, for a name with '.' or '/', which separate the parts of paths.
  void rename(std::string name);
  // Calls one that has a default name "dense_1"; it has one still.
  void number(std::string name) { name_ = std::move(name); }
  // For a model: has its layers, whose names differ, know of each other.
  void keep_apart(const std::vector<std::shared_ptr<LayerImpl>>& layers);
  // Whether a model knows it by its name.
  bool is_in_a_model() const { return !rosters_.empty(); }
  // Whether another layer of such a model is called so.
  bool is_beside(const std::string& name) const;

  // Builds unless it is done already. In a replica's function all replicas meet and it is done once, in the scope;
  // other threads wait for the first.
  void build_once(const std::vector<Shape>& input_shapes);
  bool built() const { return built_.load(std::memory_order_acquire); }

  // The regularization penalties of the weights that are trained, one scalar for each that has a regularizer.
  std::vector<Tensor> losses() const;

  // The weights, by their names. Throws: failed_precondition before they are made.
  void visit_state(StateVisitor& visitor) override;

  // The layers that this one is made of, in their order.
  const std::vector<std::shared_ptr<LayerImpl>>& sublayers() const { return sublayers_; }

  // The calls in graphs whose outputs are still in use, in their order.
  std::vector<std::shared_ptr<const Node>> calls_in_graphs() const;
  void note_call(const std::shared_ptr<const Node>& node) { nodes_.push_back(node); }

  // Throws an invalid_argument error of this layer: "dense: …".
  [[noreturn]] void refuse(const std::string& message) const;

 protected:
  // --- What a layer of one input and one output overrides; by themselves the functions for several call these.
  // By itself checks the shape.
  virtual void build(const Shape& input_shape);
  virtual Tensor call(const Tensor& x, const CallOptions& options) const;
  // By itself that of call on zeros, twice if extents are unknown, to see which depend on them.
  virtual Shape compute_output_shape(const Shape& input_shape) const;

  virtual InputCast input_cast() const { return InputCast::floating; }

  // Makes, registers and returns a weight. What surrounds the call (a strategy's scope) decides where it lives.
  Tensor add_weight(const std::string& name, const Shape& shape, const WeightOptions& options);

  // Lists a weight that a module of its own already holds.
  void track(Weight weight);

  // Makes `layer` a part of this one, built or not: it is frozen and thawed with it.
  void adopt(const std::shared_ptr<LayerImpl>& layer);

  // Adopts `layer`, which is built, registers its module, and lists its weights as "layer/weight"; those that are
  // listed already, by another way to them, are not listed again.
  void track_layer(const std::shared_ptr<LayerImpl>& layer);

  // Has forward add this penalty of each output, divided by the samples in it, to the loss.
  void regularize_activity(std::optional<regularizers::Regularizer> regularizer);

  // Adds a scalar to the loss of the model that is being trained. `reduction` says whether it is a sum over the samples
  // of this call or their mean, so that the replicas' losses together are those of one device.
  static void add_loss(const CallOptions& options, ReduceOp reduction, const Tensor& loss);

 private:
  void add_activity_losses(const std::vector<Tensor>& outputs, const CallOptions& options) const;
  void check_name(const std::string& name) const;
  std::vector<Shape> shapes_by_calling(const std::vector<Shape>& input_shapes) const;
  void cast_inputs(std::vector<Tensor>& inputs) const;
  bool has_source() const;  // and it is in force still
  // call_all, with LibTorch's casts where the policy is mixed.
  std::vector<Tensor> call_in_own_dtype(const std::vector<Tensor>& inputs, const CallOptions& options) const;

  std::string type_;
  WeightSource* source_;  // that was in force where the layer was made
  std::string name_;
  bool has_default_name_;
  using Roster = std::vector<std::weak_ptr<const LayerImpl>>;
  std::shared_ptr<const Roster> roster_;              // a model's layers
  std::vector<std::weak_ptr<const Roster>> rosters_;  // those of the models that have this one
  std::any made_from_;
  std::atomic<bool> built_ = false;
  std::mutex building_;
  bool trainable_ = true;
  std::optional<regularizers::Regularizer> activity_regularizer_;
  DTypePolicy dtype_policy_ = DTypePolicyGuard::current();
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<Weight> weights_;
  std::vector<std::shared_ptr<LayerImpl>> sublayers_;
  std::vector<std::weak_ptr<const Node>> nodes_;
};

}  // namespace tutti::keras::layers
