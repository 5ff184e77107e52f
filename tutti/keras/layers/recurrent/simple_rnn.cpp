#include "tutti/keras/layers/recurrent/simple_rnn.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rnn_relu.h>
#include <ATen/ops/rnn_tanh.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "tutti/keras/layers/recurrent/recurrent_internal.h"

namespace tutti::keras::layers {
namespace {

class SimpleRNNImpl : public RecurrentImpl {
 public:
  explicit SimpleRNNImpl(const SimpleRNNOptions& options)
      : RecurrentImpl("SimpleRNN", recurrent_options(options), {1, 1, {options.units}}), options_(options) {
    tell_made_from(options);
  }

  std::shared_ptr<RecurrentImpl> twin(std::string name, bool go_backwards) const override {
    SimpleRNNOptions options = options_;
    options.name = std::move(name);
    options.go_backwards = go_backwards;
    options.zero_output_for_mask = options.return_sequences;
    return std::make_shared<SimpleRNNImpl>(options);
  }

 protected:
  States step(const Tensor& gates, const States& states) const override {
    return {activation()(gates + at::matmul(states[0], recurrent_kernel()))};
  }

  std::optional<Run> run_fused(const Tensor& x, const States& states) const override {
    const bool tanh = is(activation(), activations::tanh);
    if (!tanh && !is(activation(), activations::relu)) return {};
    std::vector<Tensor> weights{kernel_for_libtorch(kernel()), kernel_for_libtorch(recurrent_kernel())};
    if (uses_bias()) weights.insert(weights.end(), {bias(), at::zeros_like(bias())});
    const auto run = [&](auto kernel) {
      return kernel(x, states[0].unsqueeze(0), weights, uses_bias(), /*num_layers=*/1, /*dropout=*/0, /*train=*/true,
                    /*bidirectional=*/false, /*batch_first=*/true);
    };
    const auto [sequence, h] = tanh ? run([](auto&&... arguments) { return at::rnn_tanh(arguments...); })
                                    : run([](auto&&... arguments) { return at::rnn_relu(arguments...); });
    return Run{sequence, {h.squeeze(0)}};
  }

 private:
  SimpleRNNOptions options_;
};

}  // namespace

SimpleRNN::SimpleRNN(const SimpleRNNOptions& options) : Layer(std::make_shared<SimpleRNNImpl>(options)) {}

void SimpleRNN::reset_state() const { static_cast<RecurrentImpl&>(*impl()).reset_state(); }

}  // namespace tutti::keras::layers
