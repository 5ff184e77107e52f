#pragma once

#include <string>
#include <vector>

#include "tutti/distribute/per_replica_slot.h"
#include "tutti/keras/layers/recurrent/rnn.h"

namespace tutti::keras::layers {

// A layer that takes a cell from step to step.
class RNNImpl : public LayerImpl {
 public:
  // The weights are the cell's, listed under its name, or with `module`, which is the cell's, under their own.
  RNNImpl(std::string type, const RNNCell& cell, const RNNOptions& options,
          const std::shared_ptr<torch::nn::Module>& module = nullptr);

  void build_all(const std::vector<Shape>& input_shapes) override;
  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override;
  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override;
  std::vector<Tensor> compute_masks(const std::vector<Tensor>& inputs, const std::vector<Tensor>& masks) const override;
  InputCast input_cast() const override { return InputCast::numbers; }

  void reset_state() const;

 private:
  Shape shape_of_step(Shape shape) const;
  std::vector<Tensor> first_states(const std::vector<Tensor>& inputs) const;
  // What the steps give; `states` become those after the last one.
  std::vector<Tensor> run(const Tensor& x, const Tensor& mask, std::vector<Tensor>& states,
                          const CallOptions& options) const;

  RNNOptions options_;
  RNNCell cell_;
  mutable PerReplicaSlot<std::vector<Tensor>> last_states_;  // with stateful
};

}  // namespace tutti::keras::layers
