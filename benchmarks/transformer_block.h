#pragma once

#include <torch/torch.h>

namespace tutti::benchmarks {

// One layer of a transformer, of four heads: [b, t, width] to the same.
struct TransformerBlock : torch::nn::Module {
  explicit TransformerBlock(int64_t width) : width(width) {}

  const int64_t width;
  torch::nn::LayerNorm norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  torch::nn::Linear mixed = register_module("mixed", torch::nn::Linear(width, 3 * width));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(width, width));
  torch::nn::LayerNorm norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(width, 4 * width));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(4 * width, width));

  torch::Tensor attention(const torch::Tensor& x) {
    const auto parts = mixed(x).view({x.size(0), x.size(1), 3, 4, width / 4}).permute({2, 0, 3, 1, 4});
    const torch::Tensor y = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return out(y.transpose(1, 2).reshape(x.sizes()));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = x + attention(norm1(x));
    return x + down(torch::gelu(up(norm2(x))));
  }
};

}  // namespace tutti::benchmarks
