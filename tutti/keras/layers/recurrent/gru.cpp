#include "tutti/keras/layers/recurrent/gru.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/matmul.h>

#include <utility>

#include "tutti/keras/layers/recurrent/recurrent_internal.h"

namespace tutti::keras::layers {
namespace {

// Weights of the gates z, r, h along the first axis as LibTorch has them: r, z, h.
Tensor in_order_of_libtorch(const Tensor& weights) {
  const std::vector<Tensor> gate = weights.chunk(3);
  return at::cat({gate[1], gate[0], gate[2]});
}

class GRUImpl : public RecurrentImpl {
 public:
  explicit GRUImpl(const GRUOptions& options)
      : RecurrentImpl("GRU", recurrent_options(options),
                      {3, 1, options.reset_after ? Shape{2, 3 * options.units} : Shape{3 * options.units}}),
        options_(options) {
    tell_made_from(options);
  }

  std::shared_ptr<RecurrentImpl> twin(std::string name, bool go_backwards) const override {
    GRUOptions options = options_;
    options.name = std::move(name);
    options.go_backwards = go_backwards;
    options.zero_output_for_mask = options.return_sequences;
    return std::make_shared<GRUImpl>(options);
  }

 protected:
  Tensor input_bias() const override { return options_.reset_after ? bias().select(0, 0) : bias(); }

  States step(const Tensor& gates, const States& states) const override {
    const activations::Activation& opened = options_.recurrent_activation;
    const Tensor& h = states[0];
    const std::vector<Tensor> of_x = gates.chunk(3, 1);
    Tensor z, candidate;
    if (options_.reset_after) {
      Tensor product = at::matmul(h, recurrent_kernel());
      if (uses_bias()) product = product + bias().select(0, 1);
      const std::vector<Tensor> of_h = product.chunk(3, 1);
      z = opened(of_x[0] + of_h[0]);
      candidate = activation()(of_x[2] + opened(of_x[1] + of_h[1]) * of_h[2]);
    } else {
      const std::vector<Tensor> kernel = recurrent_kernel().chunk(3, 1);
      z = opened(of_x[0] + at::matmul(h, kernel[0]));
      const Tensor r = opened(of_x[1] + at::matmul(h, kernel[1]));
      candidate = activation()(of_x[2] + at::matmul(r * h, kernel[2]));
    }
    return {z * h + (1 - z) * candidate};
  }

  std::optional<Run> run_fused(const Tensor& x, const States& states) const override {
    if (!options_.reset_after || !is(activation(), activations::tanh) ||
        !is(options_.recurrent_activation, activations::sigmoid))
      return {};
    std::vector<Tensor> weights{in_order_of_libtorch(kernel().t()), in_order_of_libtorch(recurrent_kernel().t())};
    if (uses_bias())
      for (const int64_t row : {0, 1}) weights.push_back(in_order_of_libtorch(bias().select(0, row)));
    const auto [sequence, h] = at::gru(x, states[0].unsqueeze(0), weights, uses_bias(), /*num_layers=*/1, /*dropout=*/0,
                                       /*train=*/true, /*bidirectional=*/false, /*batch_first=*/true);
    return Run{sequence, {h.squeeze(0)}};
  }

 private:
  GRUOptions options_;
};

}  // namespace

GRU::GRU(const GRUOptions& options) : Layer(std::make_shared<GRUImpl>(options)) {}

void GRU::reset_state() const { static_cast<RecurrentImpl&>(*impl()).reset_state(); }

}  // namespace tutti::keras::layers
