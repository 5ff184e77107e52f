#pragma once

#include <optional>
#include <string>

#include "tutti/keras/activations.h"
#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/window.h"

namespace tutti::keras::layers {

template <size_t Rank>
struct ConvLSTMOptions {
  int64_t filters = 0;  // required
  Size<Rank> kernel_size = size_of_all<Rank>(3);
  Size<Rank> strides = size_of_all<Rank>(1);
  Padding padding = Padding::valid;
  DataFormat data_format = DataFormat::channels_last;
  Size<Rank> dilation_rate = size_of_all<Rank>(1);  // 1 where strides are more than 1
  activations::Activation activation = activations::tanh;
  activations::Activation recurrent_activation = activations::sigmoid;
  bool use_bias = true;
  initializers::Initializer kernel_initializer = initializers::GlorotUniform();
  initializers::Initializer recurrent_initializer = initializers::Orthogonal();
  initializers::Initializer bias_initializer = initializers::Zeros();
  bool unit_forget_bias = true;  // the bias of the forget gate starts at 1
  std::optional<regularizers::Regularizer> kernel_regularizer = {};
  std::optional<regularizers::Regularizer> recurrent_regularizer = {};
  std::optional<regularizers::Regularizer> bias_regularizer = {};
  std::optional<regularizers::Regularizer> activity_regularizer = {};  // of the output, by sample
  std::optional<constraints::Constraint> kernel_constraint = {};
  std::optional<constraints::Constraint> recurrent_constraint = {};
  std::optional<constraints::Constraint> bias_constraint = {};
  double dropout = 0;                 // of the input, in training: the same elements in all steps, others for each gate
  double recurrent_dropout = 0;       // of what a step sees of the one before, likewise
  bool return_sequences = false;      // the outputs of all steps, not the last one alone
  bool return_state = false;          // the last state beside: outputs() gives it
  bool go_backwards = false;          // from the last step to the first; the outputs come in that order
  bool zero_output_for_mask = false;  // a step that the mask hides gives 0, not the output before it
  bool stateful = false;              // a batch begins with the last states of the one before, until reset_state()
  std::string name = {};
};

// LSTM on sequences of images, and of sequences or volumes: the products of its formulas are convolutions. The input's
// have the strides, padding and dilation of the options, those of h none but the padding that keeps its extents.
// Shapes, with channels last: x [batch, steps, spatial axes, in], or {x, h, c} with the first state, [batch, windows on
//   each axis, filters] each, which is 0 else; result as the state, or [batch, steps, windows on each axis, filters].
//   kernel [kernel_size, in, 4 filters], recurrent_kernel [kernel_size, filters, 4 filters], bias [4 filters].
// TF: tf.keras.layers.ConvLSTM1D, ConvLSTM2D, ConvLSTM3D. Source: Shi et al. 2015, arXiv:1506.04214.
template <size_t Rank>
class ConvLSTM : public Layer {
 public:
  explicit ConvLSTM(const ConvLSTMOptions<Rank>& options);

  // With stateful: the next batch begins with 0. Each replica has states of its own, of its shard.
  void reset_state() const;
};

using ConvLSTM1DOptions = ConvLSTMOptions<1>;
using ConvLSTM2DOptions = ConvLSTMOptions<2>;
using ConvLSTM3DOptions = ConvLSTMOptions<3>;
using ConvLSTM1D = ConvLSTM<1>;
using ConvLSTM2D = ConvLSTM<2>;
using ConvLSTM3D = ConvLSTM<3>;

}  // namespace tutti::keras::layers
