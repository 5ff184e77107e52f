#include "tutti/keras/layers/recurrent/conv_lstm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/convolutional/convolution_internal.h"
#include "tutti/keras/layers/recurrent/recurrent_internal.h"
#include "tutti/keras/layers/recurrent/rnn_internal.h"

namespace tutti::keras::layers {
namespace {

// One step. Within it channels are last; x, the states and what it gives have the order of the data format.
class ConvLSTMCellImpl final : public RNNCellImpl {
 public:
  template <size_t Rank>
  explicit ConvLSTMCellImpl(const ConvLSTMOptions<Rank>& options)
      : RNNCellImpl("ConvLSTMCell", ""),
        format_(options.data_format),
        filters_(options.filters),
        windows_(make_windows(options.kernel_size, options.strides, options.padding, options.dilation_rate)),
        recurrent_windows_(make_windows(options.kernel_size, size_of_all<Rank>(1), Padding::same)),
        activation_(options.activation),
        recurrent_activation_(options.recurrent_activation),
        kernel_options_{options.kernel_initializer, options.kernel_regularizer, options.kernel_constraint},
        recurrent_options_{options.recurrent_initializer, options.recurrent_regularizer, options.recurrent_constraint},
        bias_options_{options.bias_initializer, options.bias_regularizer, options.bias_constraint},
        uses_bias_(options.use_bias),
        dropout_(options.dropout),
        recurrent_dropout_(options.recurrent_dropout) {
    if (options.unit_forget_bias)
      bias_options_.initializer = with_unit_forget(options.bias_initializer, options.filters);
  }

  std::vector<int64_t> state_sizes() const override { return {filters_, filters_}; }
  std::vector<Shape> state_shapes(const Shape& x) const override { return {output_shape(x), output_shape(x)}; }
  Shape output_shape(const Shape& x) const override {
    Shape shape = windowed_shape(*this, last(x), windows_);
    if (format_ == DataFormat::channels_last) {
      shape.back() = filters_;
    } else {
      shape.pop_back();
      shape.insert(shape.begin() + 1, filters_);
    }
    return shape;
  }

  size_t num_drawn() const override { return (dropout_ > 0) + (recurrent_dropout_ > 0); }
  std::vector<Tensor> draw(const Shape& x, const at::TensorOptions& options) const override {
    const auto mask = [&](Shape shape, double rate) {
      shape.back() *= kGates;
      return dropout_mask(shape, options, rate);
    };
    std::vector<Tensor> masks;
    if (dropout_ > 0) masks.push_back(mask(last(x), dropout_));
    if (recurrent_dropout_ > 0) masks.push_back(mask(last(output_shape(x)), recurrent_dropout_));
    return masks;
  }

  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions& options) const override {
    const Tensor x = last(inputs[0]), h = last(inputs[1]), c = last(inputs[2]);
    const bool drops = options.training && num_drawn() > 0;
    const Tensor gates = convolve_to_gates(x, kernel_, uses_bias_ ? std::optional(bias_) : std::nullopt, windows_,
                                           drops && dropout_ > 0 ? inputs[3] : Tensor()) +
                         convolve_to_gates(h, recurrent_kernel_, {}, recurrent_windows_,
                                           drops && recurrent_dropout_ > 0 ? inputs.back() : Tensor());
    const std::vector<Tensor> gate = gates.chunk(kGates, -1);  // i, f, c, o
    const Tensor next_c = recurrent_activation_(gate[1]) * c + recurrent_activation_(gate[0]) * activation_(gate[2]);
    const Tensor next_h = first(recurrent_activation_(gate[3]) * activation_(next_c));
    return {next_h, next_h, first(next_c)};
  }

 protected:
  void build(const Shape& x) override {
    const int64_t channels = last(x).back();
    if (channels <= 0)
      refuse(tutti::str("the input of a step has shape ", to_string(x), "; its channels must be known, and not 0"));
    kernel_ = add_weight("kernel", kernel_shape(channels), kernel_options_);
    recurrent_kernel_ = add_weight("recurrent_kernel", kernel_shape(filters_), recurrent_options_);
    if (uses_bias_) bias_ = add_weight("bias", {kGates * filters_}, bias_options_);
  }

 private:
  static constexpr int64_t kGates = 4;

  Shape kernel_shape(int64_t channels) const {
    Shape shape;
    for (const Window& window : windows_.axes) shape.push_back(window.size);
    shape.insert(shape.end(), {channels, kGates * filters_});
    return shape;
  }

  // A mask has other elements for each gate, whose convolutions are then groups of one.
  static Tensor convolve_to_gates(const Tensor& x, const Tensor& kernel, const std::optional<Tensor>& bias,
                                  const Windows& windows, const Tensor& mask) {
    if (!mask.defined()) return convolve(x, kernel, bias, windows, /*groups=*/1);
    return convolve(at::cat({x, x, x, x}, -1) * mask, kernel, bias, windows, kGates);
  }

  Tensor last(const Tensor& x) const { return format_ == DataFormat::channels_first ? x.movedim(1, -1) : x; }
  Tensor first(const Tensor& x) const { return format_ == DataFormat::channels_first ? x.movedim(-1, 1) : x; }
  Shape last(Shape shape) const {
    if (format_ == DataFormat::channels_first && shape.size() > 1)
      std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
    return shape;
  }

  DataFormat format_;
  int64_t filters_;
  Windows windows_, recurrent_windows_;
  activations::Activation activation_, recurrent_activation_;
  WeightOptions kernel_options_, recurrent_options_, bias_options_;
  bool uses_bias_;
  double dropout_, recurrent_dropout_;
  Tensor kernel_, recurrent_kernel_, bias_;
};

class ConvLSTMImpl final : public RNNImpl {
 public:
  template <size_t Rank>
  ConvLSTMImpl(const RNNCell& cell, const ConvLSTMOptions<Rank>& options)
      : RNNImpl(str("ConvLSTM", Rank, 'D'), cell,
                {.return_sequences = options.return_sequences,
                 .return_state = options.return_state,
                 .go_backwards = options.go_backwards,
                 .zero_output_for_mask = options.zero_output_for_mask,
                 .stateful = options.stateful,
                 .name = options.name},
                cell.module()),
        spatial_rank_(Rank) {
    if (options.filters <= 0) refuse(tutti::str("filters is ", options.filters, "; it must be positive"));
    check_windows(*this, "kernel_size",
                  make_windows(options.kernel_size, options.strides, options.padding, options.dilation_rate));
    if (std::ranges::max(options.strides) > 1 && std::ranges::max(options.dilation_rate) > 1)
      refuse(tutti::str("strides ", str_list(options.strides), ", dilation_rate ", str_list(options.dilation_rate),
                        "; one of them must be 1"));
    for (const double rate : {options.dropout, options.recurrent_dropout}) check_dropout_rate(*this, rate);
    regularize_activity(options.activity_regularizer);
  }

  std::vector<Shape> compute_output_shapes(const std::vector<Shape>& input_shapes) const override {
    if (!input_shapes.empty() && input_shapes[0].size() != spatial_rank_ + 3)
      refuse(tutti::str("the input has shape ", to_string(input_shapes[0]), "; it must have ", spatial_rank_ + 3,
                        " axes: batch, steps, ", spatial_rank_, " of space, and channels"));
    return RNNImpl::compute_output_shapes(input_shapes);
  }

 private:
  size_t spatial_rank_;
};

template <size_t Rank>
std::shared_ptr<ConvLSTMImpl> make_conv_lstm(const ConvLSTMOptions<Rank>& options) {
  return std::make_shared<ConvLSTMImpl>(RNNCell(std::make_shared<ConvLSTMCellImpl>(options)), options);
}

}  // namespace

template <size_t Rank>
ConvLSTM<Rank>::ConvLSTM(const ConvLSTMOptions<Rank>& options) : Layer(make_conv_lstm(options), options) {}

template <size_t Rank>
void ConvLSTM<Rank>::reset_state() const {
  static_cast<RNNImpl&>(*impl()).reset_state();
}

template class ConvLSTM<1>;
template class ConvLSTM<2>;
template class ConvLSTM<3>;

}  // namespace tutti::keras::layers
