#include "tutti/keras/layers/recurrent/lstm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "tutti/keras/layers/recurrent/recurrent_internal.h"

namespace tutti::keras::layers {

initializers::Initializer with_unit_forget(const initializers::Initializer& initializer, int64_t units) {
  return {initializer.name(), [=](Tensor& bias) {
            bias.copy_(initializer(bias.sizes().vec(), bias.scalar_type()));
            bias.narrow(0, units, units).fill_(1);
          }};
}

namespace {

RecurrentOptions with_bias_initializer(const LSTMOptions& options) {
  RecurrentOptions result = recurrent_options(options);
  if (options.unit_forget_bias) result.bias_initializer = with_unit_forget(options.bias_initializer, options.units);
  return result;
}

class LSTMImpl : public RecurrentImpl {
 public:
  explicit LSTMImpl(const LSTMOptions& options)
      : RecurrentImpl("LSTM", with_bias_initializer(options), {4, 2, {4 * options.units}}), options_(options) {
    tell_made_from(options);
  }

  std::shared_ptr<RecurrentImpl> twin(std::string name, bool go_backwards) const override {
    LSTMOptions options = options_;
    options.name = std::move(name);
    options.go_backwards = go_backwards;
    options.zero_output_for_mask = options.return_sequences;
    return std::make_shared<LSTMImpl>(options);
  }

 protected:
  States step(const Tensor& gates, const States& states) const override {
    const activations::Activation& opened = options_.recurrent_activation;
    const std::vector<Tensor> gate = (gates + at::matmul(states[0], recurrent_kernel())).chunk(4, 1);
    const Tensor c = opened(gate[1]) * states[1] + opened(gate[0]) * activation()(gate[2]);
    return {opened(gate[3]) * activation()(c), c};
  }

  // LibTorch has the gates in the same order.
  std::optional<Run> run_fused(const Tensor& x, const States& states) const override {
    if (!is(activation(), activations::tanh) || !is(options_.recurrent_activation, activations::sigmoid)) return {};
    std::vector<Tensor> weights{kernel_for_libtorch(kernel()), kernel_for_libtorch(recurrent_kernel())};
    if (uses_bias()) weights.insert(weights.end(), {bias(), at::zeros_like(bias())});
    const auto [sequence, h, c] =
        at::lstm(x, {states[0].unsqueeze(0), states[1].unsqueeze(0)}, weights, uses_bias(), /*num_layers=*/1,
                 /*dropout=*/0, /*train=*/true, /*bidirectional=*/false, /*batch_first=*/true);
    return Run{sequence, {h.squeeze(0), c.squeeze(0)}};
  }

 private:
  LSTMOptions options_;
};

}  // namespace

LSTM::LSTM(const LSTMOptions& options) : Layer(std::make_shared<LSTMImpl>(options)) {}

void LSTM::reset_state() const { static_cast<RecurrentImpl&>(*impl()).reset_state(); }

}  // namespace tutti::keras::layers
