#include "tutti/keras/layers/recurrent/conv_lstm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/recurrent/lstm.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

Tensor waves(at::IntArrayRef shape, double frequency) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return (at::arange(1, count + 1, at::kDouble) * frequency).sin().view(shape).to(at::kFloat);
}

// Numbers from the formulas in NumPy.
TEST(ConvLSTM, FollowsItsFormula) {
  const ConvLSTM1D layer({.filters = 2, .kernel_size = {2}, .strides = {2}, .return_state = true});
  layer.build({kUnknown, 3, 5, 2});
  ASSERT_EQ(layer.weights().size(), 3U);
  EXPECT_EQ(layer.weights()[0].name, "kernel");
  EXPECT_TRUE(at::equal(layer.get_weights()[2], at::tensor({0.F, 0.F, 1.F, 1.F, 0.F, 0.F, 0.F, 0.F})));
  layer.set_weights({waves({2, 2, 8}, 0.3) * 0.5, waves({2, 2, 8}, 0.9) * 0.5, layer.get_weights()[2]});
  const std::vector<Tensor> outputs = layer.outputs({waves({1, 3, 5, 2}, 0.7)});
  const Tensor h = at::tensor({0.01839792, 0.022937507, -0.030104505, -0.034401004}, at::kFloat).view({1, 2, 2});
  const Tensor c = at::tensor({0.036041283, 0.043911587, -0.062840574, -0.072395829}, at::kFloat).view({1, 2, 2});
  EXPECT_TRUE(at::allclose(outputs[0], h, 1e-4, 1e-6)) << outputs[0];
  EXPECT_TRUE(at::allclose(outputs[1], h, 1e-4, 1e-6));
  EXPECT_TRUE(at::allclose(outputs[2], c, 1e-4, 1e-6)) << outputs[2];
}

TEST(ConvLSTM, OfImagesOfOnePixelIsAnLSTM) {
  const ConvLSTM2D layer({.filters = 3, .kernel_size = {1, 1}, .return_sequences = true, .go_backwards = true});
  const LSTM lstm({.units = 3, .return_sequences = true, .go_backwards = true});
  const Tensor x = at::randn({2, 4, 5}), mask = at::tensor({1, 0, 1, 1}).to(at::kBool).expand({2, 4});
  layer.build({kUnknown, 4, 1, 1, 5});
  lstm.build({kUnknown, 4, 5});
  const std::vector<Tensor> weights = layer.get_weights();
  lstm.set_weights({weights[0].view({5, 12}), weights[1].view({3, 12}), weights[2]});
  for (const CallOptions& options : {CallOptions{}, CallOptions{.masks = {mask}}})
    EXPECT_TRUE(at::allclose(layer(x.view({2, 4, 1, 1, 5}), options).view({2, 4, 3}), lstm(x, options), 1e-5, 1e-6));
}

TEST(ConvLSTM, HasItsChannelsWhereItsFormatSays) {
  const Tensor x = at::randn({2, 3, 6, 5, 4});
  const ConvLSTM2DOptions options{
      .filters = 3, .padding = Padding::same, .return_sequences = true, .return_state = true};
  auto options_first = options;
  options_first.data_format = DataFormat::channels_first;
  const ConvLSTM2D last(options), first(options_first);
  const std::vector<Tensor> expected = last.outputs({x});
  first.build({kUnknown, 3, 4, 6, 5});
  first.set_weights(last.get_weights());
  const std::vector<Tensor> outputs = first.outputs({x.movedim(-1, 2)});
  EXPECT_TRUE(at::allclose(outputs[0], expected[0].movedim(-1, 2), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(outputs[2], expected[2].movedim(-1, 1), 1e-5, 1e-6));
  EXPECT_EQ(first.compute_output_shape({kUnknown, 3, 4, 6, 5}), (Shape{kUnknown, 3, 3, 6, 5}));
  EXPECT_TRUE(at::allclose(
      last.outputs({x.narrow(1, 1, 2), last.outputs({x.narrow(1, 0, 1)})[1], last.outputs({x.narrow(1, 0, 1)})[2]})[0],
      expected[0].narrow(1, 1, 2), 1e-5, 1e-6));
}

TEST(ConvLSTM, DropsOtherElementsForEachGateAndTheSameInAllSteps) {
  const Tensor x = at::ones({1, 2, 4, 1});
  const ConvLSTM1D layer({.filters = 1,
                          .kernel_size = {1},
                          .activation = {},
                          .recurrent_activation = {},
                          .unit_forget_bias = false,
                          .dropout = 0.5,
                          .return_sequences = true});
  layer.build({kUnknown, 2, 4, 1});
  layer.set_weights({at::ones({1, 1, 4}), at::zeros({1, 1, 4}), at::zeros({4})});
  // With gates of 0 or 2: c1 = i g, h1 = o c1, c2 = f c1 + i g, h2 = o c2 = h1 (f + 1).
  bool differ = false;
  for (int i = 0; i < 20; ++i) {
    const Tensor y = layer(x, {.training = true});
    const Tensor ratio = y.select(1, 1) / y.select(1, 0);
    for (int64_t k = 0; k < 4; ++k) {
      const auto first = y[0][0][k][0].item<float>(), of_both = ratio[0][k][0].item<float>();
      EXPECT_TRUE(first == 0 || first == 8) << first;
      EXPECT_TRUE(first == 0 || of_both == 1 || of_both == 3) << of_both;
      differ = differ || (first != 0 && of_both == 1);
    }
  }
  EXPECT_TRUE(differ) << "the forget gate is dropped where the others are not";
  EXPECT_TRUE(at::equal(layer(x), layer(x)));
}

TEST(ConvLSTM, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { ConvLSTM2D({}); }), HasSubstr("conv_lstm2d: filters is 0; it must be positive"));
  EXPECT_THAT(error_of([] { ConvLSTM1D({.filters = 1, .strides = {2}, .dilation_rate = {2}}); }),
              HasSubstr("strides [2], dilation_rate [2]; one of them must be 1"));
  EXPECT_THAT(error_of([] { ConvLSTM1D({.filters = 1, .dropout = 1}); }), HasSubstr("a dropout rate is 1"));
  EXPECT_THAT(
      error_of([] {
        ConvLSTM2D({.filters = 1})(at::zeros({2, 8, 8, 3}));
      }),
      HasSubstr("the input has shape (2, 8, 8, 3); it must have 5 axes: batch, steps, 2 of space, and channels"));
}

}  // namespace
}  // namespace tutti::keras::layers
