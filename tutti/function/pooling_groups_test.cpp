#include "tutti/function/pooling_groups.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/threshold_backward.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "tutti/function/function.h"
#include "tutti/function/native_pooling.h"
#include "tutti/function/native_trial.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Tensor pooled(const Tensor& x) { return at::max_pool2d(x, {2, 2}); }

Tensor images_of(const Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

void expect_the_bits_of_two_calls(const Tensor& x, const Tensor& gradient) {
  const Tensor rectified = at::relu(x);
  const auto [wanted, places] = at::max_pool2d_with_indices(rectified, {2, 2}, {2, 2});
  const Tensor own = at::empty_like(wanted).fill_(7), where = at::empty_like(places).fill_(7);
  max_pool_2x2_of_relu(x, own, where);
  EXPECT_TRUE(has_the_bits_of(own, wanted)) << x.sizes();
  EXPECT_TRUE(has_the_bits_of(where, places)) << x.sizes();
  const Tensor spread =
      at::max_pool2d_with_indices_backward(gradient, rectified, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, places);
  const Tensor of_x = at::threshold_backward(spread, rectified, 0), own_of_x = at::empty_like(of_x).fill_(7);
  max_pool_2x2_of_relu_backward(gradient, own, where, own_of_x);
  EXPECT_TRUE(has_the_bits_of(own_of_x, of_x)) << x.sizes();
}

TEST(PoolingOfRelu, HasTheBitsOfTwoCalls) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t height : {2, 3, 6, 11})
    for (const int64_t width : {2, 5, 8, 17, 24, 26, 70})
      for (const bool odd : {false, true}) {
        Tensor x = at::randn({3, 5, height, width}), gradient = at::randn({3, 5, height / 2, width / 2});
        if (odd) {
          const Tensor kind = at::randint(8, x.sizes()), kind_of_gradient = at::randint(6, gradient.sizes());
          x.masked_fill_(kind == 0, kNaN).masked_fill_(kind == 1, -kInfinity).masked_fill_(kind == 2, kInfinity);
          x.masked_fill_(kind == 3, -0.0).masked_fill_(kind == 4, 0.0);
          gradient.masked_fill_(kind_of_gradient == 0, kNaN).masked_fill_(kind_of_gradient == 1, -0.0);
        }
        expect_the_bits_of_two_calls(x, gradient);
        expect_the_bits_of_two_calls(images_of(x), images_of(gradient));
      }
}

// The groups of a function that are poolings: the names of their calls.
template <class F>
std::vector<std::vector<std::string>> poolings_of(const F& f, const Tensor& x) {
  const auto recorded = function(f);
  for (int i = 0; i < 3; ++i) recorded(x);
  const Program& program = recorded.get_concrete_function(x).graph();
  std::vector<const Program::Call*> calls;
  for (const Program::Call& call : program.calls)
    if (!call.is_view && !call.gives_fresh_memory) calls.push_back(&call);
  const auto build = [&](const Program::Operand& operand) -> at::IValue {
    if (operand.values.empty()) return operand.constant;
    const Geometry& geometry = program.values[static_cast<size_t>(operand.values[0])].geometry;
    return at::empty_strided(geometry.sizes, geometry.strides, geometry.dtype);
  };
  std::vector<std::vector<std::string>> names;
  for (const CallGroup& group : join_poolings(program, group_calls(program, calls), build)) {
    if (!group.pooling) continue;
    names.emplace_back();
    for (const Program::Call* const call : group.calls) names.back().push_back(call->name.substr(6));
  }
  return names;
}

const std::vector<std::string> kForward{"relu", "max_pool2d_with_indices"};
const std::vector<std::string> kBackward{"max_pool2d_with_indices_backward", "threshold_backward"};

// The gradient of `f(x)` for the weights, by a convolution, so that relu's gradient is needed.
template <class F>
auto gradient_through(F f) {
  const Tensor weights = at::randn({3, 2, 3, 3}).set_requires_grad(true);
  return [=](const Tensor& x) { return torch::autograd::grad({f(at::conv2d(x, weights)).sum()}, {weights})[0]; };
}

TEST(PoolingGroups, AReluAndItsPoolingAreJoined) {
  const Tensor x = at::randn({2, 3, 6, 8});
  EXPECT_THAT(poolings_of([](const Tensor& y) { return pooled(at::relu(y)); }, x), ElementsAre(kForward));
  EXPECT_THAT(poolings_of([](const Tensor& y) { return pooled(at::relu(y)); }, images_of(x)), ElementsAre(kForward));
}

TEST(PoolingGroups, SoAreTheirGradients) {
  const auto f = gradient_through([](const Tensor& y) { return pooled(at::relu(y)).square(); });
  EXPECT_THAT(poolings_of(f, at::randn({2, 2, 8, 8})), ElementsAre(kForward, kBackward));
}

// As layers have it that take images with the channels last: relu sees other axes than the pooling.
TEST(PoolingGroups, TheAxesMayBeTurnedBetweenThem) {
  const auto f = gradient_through([](const Tensor& y) {
    return pooled(at::relu(y.permute({0, 2, 3, 1})).permute({0, 3, 1, 2})).square();
  });
  EXPECT_THAT(poolings_of(f, images_of(at::randn({2, 2, 8, 8}))), ElementsAre(kForward, kBackward));
}

TEST(PoolingGroups, NothingIsJoinedWhereReluIsUsedElsewhere) {
  const Tensor x = at::randn({2, 2, 8, 8});
  const auto poolings = [&](const auto& f) { return poolings_of(gradient_through(f), x); };
  EXPECT_THAT(poolings([](const Tensor& y) {
                const Tensor rectified = at::relu(y);
                return pooled(rectified).sum() + rectified.sum();
              }),
              IsEmpty());
  EXPECT_THAT(poolings([](const Tensor& y) { return pooled(at::relu(y)).mul_(-1); }), IsEmpty());
  EXPECT_THAT(poolings([](const Tensor& y) { return at::max_pool2d(at::relu(y), {3, 3}); }), IsEmpty());
  EXPECT_THAT(poolings_of(
                  [](const Tensor& y) {
                    const Tensor rectified = at::relu(y);
                    return std::tuple(rectified, pooled(rectified));
                  },
                  x),
              IsEmpty());
}

TEST(PoolingGroups, ReplaysHaveEagersBits) {
  const Tensor weights = at::randn({3, 2, 3, 3});
  for (const bool channels_last : {false, true})
    for (const int form : {0, 1, 2, 3, 4}) {
      const auto step = [&](const Tensor& x) {
        const Tensor w = weights.detach().set_requires_grad(true), z = at::conv2d(x, w);
        const Tensor y = form == 4 ? at::relu(z.permute({0, 2, 3, 1})).permute({0, 3, 1, 2}) : at::relu(z);
        Tensor made = pooled(y);
        if (form == 1) made = made.mul_(-1);
        if (form == 2) made = made + y.mean();
        if (form == 3) made = made * pooled(y * 2);
        return std::tuple(made.detach().clone(), torch::autograd::grad({made.square().sum()}, {w})[0]);
      };
      const auto recorded = function(step);
      for (int i = 0; i < 6; ++i) {
        const Tensor x = channels_last ? images_of(at::randn({2, 2, 9, 10})) : at::randn({2, 2, 9, 10});
        const auto [made, gradient] = recorded(x);
        const auto [wanted, wanted_gradient] = step(x);
        EXPECT_TRUE(made.equal(wanted)) << form << ", call " << i;
        EXPECT_TRUE(gradient.equal(wanted_gradient)) << form << ", call " << i;
      }
    }
}

}  // namespace
}  // namespace tutti
