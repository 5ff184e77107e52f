#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/distribute/per_replica_slot.h"
#include "tutti/keras/activations.h"
#include "tutti/keras/layers/layer_impl.h"

namespace tutti::keras::layers {

// 1 / (1 - rate), or 0 at random.
Tensor dropout_mask(at::IntArrayRef shape, const at::TensorOptions& options, double rate);
// The layer refuses a rate outside of [0, 1).
void check_dropout_rate(const LayerImpl& layer, double rate);

// A bias of four gates, of which the second, the forget gate's, is 1.
initializers::Initializer with_unit_forget(const initializers::Initializer& initializer, int64_t units);

// A kernel [n, gates * units] as LibTorch has it, turned; cuDNN wants it to lie so.
Tensor kernel_for_libtorch(const Tensor& kernel);

// The options that SimpleRNN, LSTM and GRU have in common.
struct RecurrentOptions {
  int64_t units;
  activations::Activation activation;
  bool use_bias;
  initializers::Initializer kernel_initializer;
  initializers::Initializer recurrent_initializer;
  initializers::Initializer bias_initializer;
  std::optional<regularizers::Regularizer> kernel_regularizer;
  std::optional<regularizers::Regularizer> recurrent_regularizer;
  std::optional<regularizers::Regularizer> bias_regularizer;
  std::optional<regularizers::Regularizer> activity_regularizer;
  double dropout;
  double recurrent_dropout;
  bool return_sequences;
  bool return_state;
  bool go_backwards;
  bool zero_output_for_mask;
  bool stateful;
  std::string name;
};

template <class Options>
RecurrentOptions recurrent_options(const Options& options) {
  return {.units = options.units,
          .activation = options.activation,
          .use_bias = options.use_bias,
          .kernel_initializer = options.kernel_initializer,
          .recurrent_initializer = options.recurrent_initializer,
          .bias_initializer = options.bias_initializer,
          .kernel_regularizer = options.kernel_regularizer,
          .recurrent_regularizer = options.recurrent_regularizer,
          .bias_regularizer = options.bias_regularizer,
          .activity_regularizer = options.activity_regularizer,
          .dropout = options.dropout,
          .recurrent_dropout = options.recurrent_dropout,
          .return_sequences = options.return_sequences,
          .return_state = options.return_state,
          .go_backwards = options.go_backwards,
          .zero_output_for_mask = options.zero_output_for_mask,
          .stateful = options.stateful,
          .name = options.name};
}

// What a cell is made of: how many gates it has, how many tensors [batch, units] its state, and the shape of its bias.
struct CellForm {
  int64_t num_gates;
  size_t num_states;
  Shape bias_shape;
};

// A layer that takes a sequence step by step. Its gates' weights stand side by side, in Keras's order.
class RecurrentImpl : public LayerImpl {
 public:
  RecurrentImpl(std::string type, const RecurrentOptions& options, CellForm form);

  // A new layer with the options of this one, but for these; the outputs of steps that a mask hides are 0, so that
  // those of two directions may be merged.
  virtual std::shared_ptr<RecurrentImpl> twin(std::string name, bool go_backwards) const = 0;

  // Inputs: the sequence, or it and the first state. Outputs: the sequence or its last step, and the last state if
  // return_state.
  void build_all(const std::vector<Shape>& input_shapes) override;
  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override;
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override;
  std::vector<Tensor> compute_masks(const std::vector<Tensor>& inputs, const std::vector<Tensor>& masks) const override;

  InputCast input_cast() const override { return InputCast::numbers; }

  bool return_sequences() const { return options_.return_sequences; }
  bool return_state() const { return options_.return_state; }
  bool go_backwards() const { return options_.go_backwards; }
  size_t num_states() const { return form_.num_states; }
  // With stateful: forgets the last states of all replicas.
  void reset_state() const;

 protected:
  using States = std::vector<Tensor>;  // each [batch, units]; the first is the output of a step
  struct Run {
    Tensor sequence;  // [batch, steps, units]
    States states;    // after the last step
  };

  // The states after a step. gates: what its input adds to them, [batch, num_gates * units].
  virtual States step(const Tensor& gates, const States& states) const = 0;
  // All steps of x [batch, steps, features] by LibTorch's kernel; nothing if the options ask for what it lacks.
  virtual std::optional<Run> run_fused(const Tensor& x, const States& states) const = 0;
  // Of the gates of the input.
  virtual Tensor input_bias() const { return bias_; }

  int64_t units() const { return options_.units; }
  bool uses_bias() const { return options_.use_bias; }
  const activations::Activation& activation() const { return options_.activation; }
  const Tensor& kernel() const { return kernel_; }                      // [features, num_gates * units]
  const Tensor& recurrent_kernel() const { return recurrent_kernel_; }  // [units, num_gates * units]
  const Tensor& bias() const { return bias_; }                          // undefined without use_bias

 private:
  States first_states(const std::vector<Tensor>& inputs) const;
  void keep_states(const States& states) const;
  // As run_fused, with a mask [batch, steps]: the steps that count are taken one behind the other, and each step of the
  // sequence shows the last of them.
  std::optional<Run> run_compacted(const Tensor& x, const Tensor& mask, const States& states) const;
  // Step by step; mask [batch, steps] may be undefined.
  Run run_stepwise(const Tensor& x, const Tensor& mask, States states, bool training) const;

  RecurrentOptions options_;
  CellForm form_;
  Tensor kernel_;
  Tensor recurrent_kernel_;
  Tensor bias_;
  mutable PerReplicaSlot<States> last_states_;  // with stateful
};

// Whether it is LibTorch's tanh and so on: what its kernels compute.
inline bool is(const activations::Activation& activation, const activations::Activation& other) {
  return activation.function == other.function && activation.function;
}

}  // namespace tutti::keras::layers
