#include "tutti/function/native_convolution.h"

#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

#include "tutti/distribute/intra_op_threads.h"
#include "tutti/function/native_trial.h"

namespace tutti {
namespace {

using at::Tensor;
using Mask = std::array<bool, 3>;

struct Called {
  Tensor images, weights, bias;
  std::vector<int64_t> stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;

  torch::jit::Stack forward() const {
    return {images, weights, bias, stride, padding, dilation, false, std::vector<int64_t>{0, 0}, groups};
  }
  torch::jit::Stack backward(const Tensor& gradient, const Mask& mask) const {
    return {gradient,
            images,
            weights,
            std::vector<int64_t>{weights.size(0)},
            stride,
            padding,
            dilation,
            false,
            std::vector<int64_t>{0, 0},
            groups,
            c10::List<bool>({mask[0], mask[1], mask[2]})};
  }
  Tensor by_libtorch() const {
    return at::convolution(images, weights, bias, stride, padding, dilation, false, std::vector<int64_t>{0, 0}, groups);
  }
  std::vector<Tensor> gradients_by_libtorch(const Tensor& gradient, const Mask& mask) const {
    const std::vector<int64_t> zeros{0, 0}, bias_sizes{weights.size(0)};
    auto [a, b, c] = at::convolution_backward(gradient, images, weights, at::IntArrayRef(bias_sizes), stride, padding,
                                              dilation, false, zeros, groups, mask);
    return {a, b, c};
  }
};

NativeKernel forward_kernel(const Called& called) {
  return native_convolution_of("aten::convolution", called.forward());
}

// Whether there is a kernel depends on the processor; where there is one, it has LibTorch's bits. Returns how many.
int expect_the_bits_of_libtorch(const Called& called) {
  int taken = 0;
  torch::jit::Stack arguments = called.forward();
  const Tensor wanted = called.by_libtorch();
  if (const NativeKernel kernel = native_convolution_of("aten::convolution", arguments)) {
    arguments.push_back(at::empty(wanted.sizes()).fill_(7));
    kernel(arguments);
    EXPECT_TRUE(has_the_bits_of(arguments.back().toTensor(), wanted))
        << called.images.sizes() << called.weights.sizes();
    ++taken;
  }
  const Tensor gradient = at::randn(wanted.sizes());
  for (const Mask& mask : {Mask{true, true, true}, Mask{false, true, true}, Mask{false, true, false},
                           Mask{true, false, false}, Mask{false, false, true}}) {
    arguments = called.backward(gradient, mask);
    const NativeKernel kernel = native_convolution_of("aten::convolution_backward", arguments);
    if (!kernel) continue;
    const std::vector<Tensor> gradients = called.gradients_by_libtorch(gradient, mask);
    for (const Tensor& like : gradients)
      arguments.push_back(like.defined() ? at::empty(like.sizes()).fill_(7) : Tensor());
    kernel(arguments);
    for (size_t i = 0; i < gradients.size(); ++i)
      EXPECT_TRUE(has_the_bits_of(arguments[11 + i].toTensor(), gradients[i]))
          << i << ": " << called.images.sizes() << called.weights.sizes() << mask[0] << mask[1] << mask[2];
    ++taken;
  }
  return taken;
}

TEST(NativeConvolution, HasLibTorchsBitsWhereItIsTaken) {
  const IntraOpThreads one_thread(1);
  std::mt19937 random(1);
  const auto size = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % static_cast<unsigned>(most)); };
  int taken = expect_the_bits_of_libtorch({at::randn({8, 1, 28, 28}), at::randn({6, 1, 5, 5}), at::randn({6})});
  taken += expect_the_bits_of_libtorch({at::randn({8, 6, 12, 12}), at::randn({16, 6, 5, 5}), at::randn({16})});
  taken += expect_the_bits_of_libtorch({at::randn({4, 32, 13, 13}), at::randn({24, 32, 3, 3}), Tensor()});
  for (int round = 0; round < 20; ++round) {
    const int64_t in = size(20), out = size(20), height = size(5), width = size(5);
    taken +=
        expect_the_bits_of_libtorch({at::randn({size(17), in, height + size(9), width + size(20)}),
                                     at::randn({out, in, height, width}), random() % 2 ? at::randn({out}) : Tensor()});
  }
  std::cout << taken << " of 138 are taken\n";
}

TEST(NativeConvolution, KeepsNaNsAndInfinities) {
  const IntraOpThreads one_thread(1);
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), -0.0F}) {
    Called called{at::randn({4, 2, 9, 9}), at::randn({3, 2, 4, 4}), at::randn({3})};
    called.images.select(0, 1).fill_(odd);
    called.weights.select(0, 2).select(0, 1).fill_(odd);
    expect_the_bits_of_libtorch(called);
  }
}

TEST(NativeConvolution, LeavesOtherConvolutionsToLibTorch) {
  const IntraOpThreads one_thread(1);
  const auto called = [](const Tensor& images, const Tensor& weights) { return Called{images, weights, {}}; };
  const Tensor images = at::randn({8, 4, 12, 12}), weights = at::randn({4, 4, 3, 3});
  EXPECT_FALSE(forward_kernel(called(images.to(at::kDouble), weights.to(at::kDouble))));
  EXPECT_FALSE(forward_kernel(called(images.contiguous(at::MemoryFormat::ChannelsLast), weights)));
  EXPECT_FALSE(forward_kernel(called(at::randn({8, 17, 12, 12}), at::randn({4, 17, 3, 3}))));
  EXPECT_FALSE(forward_kernel(called(at::randn({0, 4, 12, 12}), weights)));
  for (const auto& change : {&Called::stride, &Called::padding, &Called::dilation}) {
    Called other = called(images, weights);
    other.*change = {2, 2};
    EXPECT_FALSE(forward_kernel(other));
  }
  Called grouped = called(at::randn({8, 8, 12, 12}), weights);
  grouped.groups = 2;
  EXPECT_FALSE(forward_kernel(grouped));
}

TEST(NativeConvolution, LeavesThemToSeveralThreads) {
  const IntraOpThreads two(2);
  EXPECT_FALSE(forward_kernel({at::randn({8, 1, 28, 28}), at::randn({6, 1, 5, 5}), at::randn({6})}));
}

}  // namespace
}  // namespace tutti
