#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/normalization/batch_normalization.h"
#include "tutti/keras/layers/pooling/global_pooling.h"
#include "tutti/keras/layers/recurrent/bidirectional.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/recurrent/simple_rnn.h"
#include "tutti/keras/layers/recurrent/time_distributed.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kUnits = 3;

struct Direction {
  bool return_sequences = true;
  bool return_state = false;
  bool go_backwards = false;
};

// The kinds of recurrent layers, by name.
struct Kind {
  std::string name;
  std::function<Layer(const Direction&)> make;
};

template <class L, class Options>
Kind kind(std::string name, Options options) {
  options.units = kUnits;
  options.bias_initializer = initializers::RandomUniform();
  return {std::move(name), [options](const Direction& direction) -> Layer {
            Options own = options;
            own.return_sequences = direction.return_sequences;
            own.return_state = direction.return_state;
            own.go_backwards = direction.go_backwards;
            return L(own);
          }};
}

// tanh and so on, but not the ones that LibTorch's kernels know: the same layer step by step.
constexpr activations::Activation kOwnTanh{"tanh", [](const Tensor& x) { return x.tanh(); }};

std::vector<Kind> kinds() {
  return {kind<SimpleRNN>("SimpleRNN", SimpleRNNOptions{}),
          kind<SimpleRNN>("SimpleRNN of relu", SimpleRNNOptions{.activation = activations::relu}),
          kind<LSTM>("LSTM", LSTMOptions{}),
          kind<GRU>("GRU", GRUOptions{}),
          kind<GRU>("GRU without reset_after", GRUOptions{.reset_after = false}),
          kind<SimpleRNN>("SimpleRNN without bias", SimpleRNNOptions{.use_bias = false}),
          kind<LSTM>("LSTM without bias", LSTMOptions{.use_bias = false}),
          kind<GRU>("GRU without bias", GRUOptions{.use_bias = false})};
}

std::vector<std::pair<Kind, Kind>> fused_and_stepwise() {
  return {{kind<SimpleRNN>("SimpleRNN", SimpleRNNOptions{}),
           kind<SimpleRNN>("SimpleRNN", SimpleRNNOptions{.activation = kOwnTanh})},
          {kind<LSTM>("LSTM", LSTMOptions{}), kind<LSTM>("LSTM", LSTMOptions{.activation = kOwnTanh})},
          {kind<LSTM>("LSTM without bias", LSTMOptions{.use_bias = false}),
           kind<LSTM>("LSTM without bias", LSTMOptions{.activation = kOwnTanh, .use_bias = false})},
          {kind<GRU>("GRU", GRUOptions{}), kind<GRU>("GRU", GRUOptions{.activation = kOwnTanh})}};
}

bool near(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 1e-5, 1e-6); }

TEST(RecurrentLayers, LibTorchsKernelIsTheSameAsStepsInOutputsStatesAndGradients) {
  for (const auto& [fused, stepwise] : fused_and_stepwise())
    for (const bool backwards : {false, true}) {
      const Direction direction{.return_state = true, .go_backwards = backwards};
      const Layer a = fused.make(direction), b = stepwise.make(direction);
      const Tensor x = at::randn({4, 6, 5}).requires_grad_(), twin = x.detach().clone().requires_grad_();
      a.build({kUnknown, 6, 5});
      b.build({kUnknown, 6, 5});
      b.set_weights(a.get_weights());
      const std::vector<Tensor> of_a = a.outputs({x}), of_b = b.outputs({twin});
      ASSERT_EQ(of_a.size(), of_b.size());
      Tensor loss_a = at::zeros({}), loss_b = at::zeros({});
      for (size_t i = 0; i < of_a.size(); ++i) {
        EXPECT_TRUE(near(of_a[i], of_b[i])) << fused.name << " output " << i;
        loss_a = loss_a + of_a[i].square().sum();
        loss_b = loss_b + of_b[i].square().sum();
      }
      loss_a.backward();
      loss_b.backward();
      EXPECT_TRUE(at::allclose(x.grad(), twin.grad(), 1e-4, 1e-5)) << fused.name;
      for (size_t i = 0; i < a.weights().size(); ++i)
        EXPECT_TRUE(at::allclose(a.weights()[i].value.grad(), b.weights()[i].value.grad(), 1e-4, 1e-5))
            << fused.name << ' ' << a.weights()[i].name;
    }
}

TEST(RecurrentLayers, TheLastOutputIsThatOfTheSequenceAndTheState) {
  for (const Kind& kind : kinds()) {
    const Layer all = kind.make({.return_state = true}), last = kind.make({.return_sequences = false});
    const Tensor x = at::randn({2, 5, 4});
    all.build({kUnknown, kUnknown, 4});
    last.build({kUnknown, kUnknown, 4});
    last.set_weights(all.get_weights());
    const std::vector<Tensor> outputs = all.outputs({x});
    EXPECT_EQ(outputs[0].sizes(), (Shape{2, 5, kUnits})) << kind.name;
    EXPECT_TRUE(near(outputs[1], outputs[0].select(1, 4))) << kind.name;
    EXPECT_TRUE(near(last(x), outputs[1])) << kind.name;
    const std::vector<Shape> shapes = all.impl()->compute_output_shapes({{2, 5, 4}});
    ASSERT_EQ(shapes.size(), outputs.size());
    for (size_t i = 0; i < shapes.size(); ++i) EXPECT_EQ(outputs[i].sizes(), shapes[i]) << kind.name;
    EXPECT_EQ(last.compute_output_shape({kUnknown, 5, 4}), (Shape{kUnknown, kUnits}));
  }
}

TEST(RecurrentLayers, GoOnFromAGivenState) {
  for (const Kind& kind : kinds()) {
    const Layer layer = kind.make({.return_state = true});
    const Tensor x = at::randn({2, 6, 4});
    const std::vector<Tensor> whole = layer.outputs({x});
    std::vector<Tensor> inputs = layer.outputs({x.narrow(1, 0, 2)});
    inputs[0] = x.narrow(1, 2, 4);
    const std::vector<Tensor> rest = layer.outputs(inputs);
    EXPECT_TRUE(near(rest[0], whole[0].narrow(1, 2, 4))) << kind.name;
    EXPECT_TRUE(near(rest.back(), whole.back())) << kind.name;
  }
}

TEST(RecurrentLayers, GoBackwards) {
  for (const Kind& kind : kinds()) {
    const Layer forward = kind.make({}), backward = kind.make({.go_backwards = true});
    const Tensor x = at::randn({2, 5, 4});
    forward.build({kUnknown, 5, 4});
    backward.build({kUnknown, 5, 4});
    backward.set_weights(forward.get_weights());
    EXPECT_TRUE(near(backward(x), forward(x.flip(1)))) << kind.name;
  }
}

// With and without the state: LibTorch's kernel serves where it can, and steps one by one elsewhere.
TEST(RecurrentLayers, SkipMaskedStepsAndRepeatTheOutputBeforeThem) {
  const Tensor mask = at::tensor({1, 1, 0, 1, 0, 0, 1, 0, 1, 1}).to(at::kBool).reshape({2, 5});
  for (const Kind& kind : kinds())
    for (const bool return_state : {true, false}) {
      const Layer layer = kind.make({.return_state = return_state});
      const Tensor x = at::randn({2, 5, 4});
      const std::vector<Tensor> masked = layer.outputs({x}, {.masks = {mask}});
      for (int64_t i = 0; i < 2; ++i) {
        const std::vector<Tensor> plain = layer.outputs({x[i].index({mask[i]}).unsqueeze(0)});
        Tensor expected = at::zeros({kUnits});
        int64_t next = 0;
        for (int64_t t = 0; t < 5; ++t) {
          if (mask[i][t].item<bool>()) expected = plain[0][0][next++];
          EXPECT_TRUE(near(masked[0][i][t], expected)) << kind.name << " step " << t;
        }
        for (size_t state = 1; state < masked.size(); ++state)
          EXPECT_TRUE(near(masked[state][i], plain[state][0])) << kind.name;
      }
      EXPECT_TRUE(at::equal(layer.compute_mask(x, mask), mask));
      EXPECT_FALSE(kind.make({.return_sequences = false}).compute_mask(x, mask).defined());
    }
}

TEST(RecurrentLayers, ASequenceThatIsAllMaskedKeepsItsFirstStateAndGivesZero) {
  const Tensor mask = at::zeros({2, 5}, at::kBool);
  for (const Kind& kind : kinds()) {
    const Layer layer = kind.make({.return_state = true});
    std::vector<Tensor> inputs{at::randn({2, 5, 4})};
    layer.build({kUnknown, 5, 4});
    inputs.resize(layer.outputs(inputs).size(), at::full({2, kUnits}, 0.5));
    const std::vector<Tensor> outputs = layer.outputs(inputs, {.masks = {mask}});
    EXPECT_TRUE(at::equal(outputs[0], at::zeros({2, 5, kUnits}))) << kind.name;
    for (size_t i = 1; i < outputs.size(); ++i) EXPECT_TRUE(at::equal(outputs[i], inputs[i])) << kind.name;
  }
}

TEST(RecurrentLayers, PassGradientsToStepsThatCountAlone) {
  const Tensor mask = at::tensor({1, 0, 1, 0, 0}).to(at::kBool).unsqueeze(0);
  for (const Kind& kind : kinds()) {
    const Layer layer = kind.make({.return_sequences = false});
    const Tensor x = at::randn({1, 5, 4}).requires_grad_(),
                 kept = x.detach().index({mask}).unsqueeze(0).requires_grad_();
    layer(x, {.masks = {mask}}).square().sum().backward();
    layer(kept).square().sum().backward();
    EXPECT_TRUE(at::allclose(x.grad().index({mask}), kept.grad()[0], 1e-4, 1e-6)) << kind.name;
    EXPECT_EQ(x.grad().index({mask.logical_not()}).abs().sum().item<double>(), 0) << kind.name;
  }
}

TEST(RecurrentLayers, AMaskThatHidesNothingChangesNothing) {
  for (const Kind& kind : kinds())
    for (const bool backwards : {false, true}) {
      const Layer layer = kind.make({.go_backwards = backwards});
      const Tensor x = at::randn({2, 5, 4});
      EXPECT_TRUE(near(layer(x), layer(x, {.masks = {at::ones({2, 5}, at::kBool)}}))) << kind.name;
    }
}

// One unit, one feature: the formulas by hand.
TEST(LSTM, HasItsGatesInTheOrderIFCO) {
  const LSTM layer({.units = 1, .return_state = true});
  layer.build({kUnknown, 1, 1});
  layer.set_weights({at::tensor({0.1F, 0.2F, 0.3F, 0.4F}).reshape({1, 4}),
                     at::tensor({0.5F, 0.6F, 0.7F, 0.8F}).reshape({1, 4}), at::tensor({0.F, 1.F, 0.F, 0.1F})});
  const auto opened = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double x = 2, h = 0.3, c = -0.4;
  const double c_after = opened(0.2 * x + 0.6 * h + 1) * c + opened(0.1 * x + 0.5 * h) * std::tanh(0.3 * x + 0.7 * h);
  const double h_after = opened(0.4 * x + 0.8 * h + 0.1) * std::tanh(c_after);
  const std::vector<Tensor> outputs = layer.outputs({at::full({1, 1, 1}, x), at::full({1, 1}, h), at::full({1, 1}, c)});
  EXPECT_NEAR(outputs[0].item<double>(), h_after, 1e-6);
  EXPECT_NEAR(outputs[2].item<double>(), c_after, 1e-6);
}

TEST(LSTM, ForgetsLittleAtFirst) {
  const LSTM layer({.units = 2});
  layer.build({kUnknown, 4, 3});
  EXPECT_EQ(layer.weights()[0].value.sizes(), (Shape{3, 8}));
  EXPECT_EQ(layer.weights()[1].name, "recurrent_kernel");
  EXPECT_EQ(layer.weights()[1].value.sizes(), (Shape{2, 8}));
  EXPECT_TRUE(at::equal(layer.weights()[2].value, at::tensor({0.F, 0.F, 1.F, 1.F, 0.F, 0.F, 0.F, 0.F})));
  const LSTM plain({.units = 2, .unit_forget_bias = false});
  plain.build({kUnknown, 4, 3});
  EXPECT_TRUE(at::equal(plain.weights()[2].value, at::zeros({8})));
}

TEST(GRU, HasItsGatesInTheOrderZRH) {
  const auto opened = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double x = 2, h = 0.3;
  for (const bool reset_after : {true, false}) {
    const GRU layer({.units = 1, .reset_after = reset_after});
    layer.build({kUnknown, 1, 1});
    const Tensor bias = reset_after ? at::tensor({0.1F, 0.2F, 0.3F, -0.1F, -0.2F, -0.3F}).reshape({2, 3})
                                    : at::tensor({0.1F, 0.2F, 0.3F});
    layer.set_weights(
        {at::tensor({0.4F, 0.5F, 0.6F}).reshape({1, 3}), at::tensor({0.7F, 0.8F, 0.9F}).reshape({1, 3}), bias});
    const double more = reset_after ? 1 : 0;
    const double z = opened(0.4 * x + 0.7 * h + 0.1 - 0.1 * more), r = opened(0.5 * x + 0.8 * h + 0.2 - 0.2 * more);
    const double candidate = std::tanh(0.6 * x + 0.3 + (reset_after ? r * (0.9 * h - 0.3) : 0.9 * (r * h)));
    EXPECT_NEAR(layer({at::full({1, 1, 1}, x), at::full({1, 1}, h)}).item<double>(), z * h + (1 - z) * candidate, 1e-6);
  }
}

TEST(RecurrentLayers, DropOutTheSameInAllSteps) {
  const SimpleRNN inputs({.units = 8,
                          .activation = activations::linear,
                          .kernel_initializer = initializers::Identity(),
                          .recurrent_initializer = initializers::Zeros(),
                          .dropout = 0.5,
                          .return_sequences = true});
  const Tensor x = at::ones({16, 3, 8}), dropped = inputs(x, {.training = true});
  EXPECT_TRUE(near(inputs(x), x));
  EXPECT_TRUE(near(dropped, dropped.narrow(1, 0, 1).expand_as(dropped)));
  EXPECT_TRUE(at::equal(dropped.ne(0), dropped.eq(2)));
  EXPECT_GT(dropped.eq(0).sum().item<int64_t>(), 0);
  const LSTM states({.units = 8, .recurrent_dropout = 0.5});
  EXPECT_TRUE(near(states(x), states(x)));
  EXPECT_FALSE(near(states(x, {.training = true}), states(x)));
}

TEST(RecurrentLayers, TakeAnEmptyBatch) {
  for (const Kind& kind : kinds())
    EXPECT_EQ(kind.make({})(at::zeros({0, 5, 4})).sizes(), (Shape{0, 5, kUnits})) << kind.name;
}

TEST(RecurrentLayers, FollowTheDTypePolicy) {
  for (const Kind& kind : kinds()) {
    const Tensor x = at::randn({2, 5, 4});
    const Layer plain = kind.make({});
    plain.build({kUnknown, 5, 4});
    const DTypePolicyGuard guard(DTypePolicy::mixed_bfloat16);
    const Layer mixed = kind.make({});
    mixed.build({kUnknown, 5, 4});
    mixed.set_weights(plain.get_weights());
    EXPECT_EQ(mixed(x).scalar_type(), at::kBFloat16) << kind.name;
    EXPECT_TRUE(at::allclose(mixed(x).to(at::kFloat), plain(x), 0, 0.05)) << kind.name;
  }
}

TEST(RecurrentLayers, RefuseWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { LSTM({.units = 0}); }), StartsWith("invalid_argument: lstm: units is 0"));
  EXPECT_THAT(error_of([] { GRU({.units = 1, .dropout = 1}); }), HasSubstr("gru: a dropout rate is 1"));
  const LSTM layer({.units = 2});
  EXPECT_THAT(error_of([&] { layer(at::zeros({2, 3})); }), HasSubstr("lstm: the input has shape (2, 3)"));
  layer(at::zeros({2, 3, 4}));
  EXPECT_THAT(error_of([&] { layer(at::zeros({2, 3, 5})); }), HasSubstr("the layer was built for 4 features"));
  EXPECT_THAT(error_of([&] { layer(at::zeros({2, 0, 4})); }), HasSubstr("it must have a step"));
  EXPECT_THAT(error_of([&] { layer({at::zeros({2, 3, 4}), at::zeros({2, 2})}); }), HasSubstr("not 2 inputs"));
  EXPECT_THAT(error_of([&] {
                layer({at::zeros({2, 3, 4}), at::zeros({2, 2}), at::zeros({2, 3})});
              }),
              HasSubstr("a first state has shape (2, 3)"));
  EXPECT_THAT(error_of([&] {
                layer(at::zeros({2, 3, 4}), {.masks = {at::ones({2, 4}, at::kBool)}});
              }),
              HasSubstr("the mask has shape (2, 4); it must be (2, 3)"));
}

TEST(Bidirectional, MergesBothDirections) {
  const Tensor x = at::randn({2, 5, 4});
  const Bidirectional both(LSTM({.units = kUnits, .return_sequences = true}), {.merge_mode = MergeMode::none});
  const std::vector<Tensor> outputs = both.outputs({x});
  ASSERT_EQ(outputs.size(), 2U);
  ASSERT_EQ(both.weights().size(), 6U);
  EXPECT_EQ(both.weights()[0].name, "forward_lstm/kernel");
  EXPECT_EQ(both.weights()[3].name, "backward_lstm/kernel");
  const auto weights = both.get_weights();
  for (const bool backwards : {false, true}) {
    const LSTM one({.units = kUnits, .return_sequences = true, .go_backwards = backwards});
    one.build({kUnknown, 5, 4});
    one.set_weights({weights.begin() + 3 * backwards, weights.begin() + 3 * backwards + 3});
    EXPECT_TRUE(near(outputs[backwards], backwards ? one(x).flip(1) : one(x)));
  }
  const auto merged = [&](MergeMode mode) {
    const Bidirectional layer(LSTM({.units = kUnits, .return_sequences = true}), {.merge_mode = mode});
    layer.build({kUnknown, 5, 4});
    layer.set_weights(weights);
    EXPECT_EQ(layer(x).sizes(), layer.compute_output_shape({2, 5, 4}));
    return layer(x);
  };
  EXPECT_TRUE(near(merged(MergeMode::concat), at::cat({outputs[0], outputs[1]}, -1)));
  EXPECT_TRUE(near(merged(MergeMode::sum), outputs[0] + outputs[1]));
  EXPECT_TRUE(near(merged(MergeMode::mul), outputs[0] * outputs[1]));
  EXPECT_TRUE(near(merged(MergeMode::ave), (outputs[0] + outputs[1]) / 2));
}

TEST(Bidirectional, GivesAndTakesTheStatesOfBoth) {
  const Bidirectional layer(GRU({.units = kUnits, .return_state = true}));
  const Tensor x = at::randn({2, 5, 4});
  const std::vector<Tensor> outputs = layer.outputs({x});
  ASSERT_EQ(outputs.size(), 3U);
  EXPECT_TRUE(near(outputs[0], at::cat({outputs[1], outputs[2]}, -1)));
  const Tensor zero = at::zeros({2, kUnits});
  EXPECT_TRUE(near(layer.outputs({x, zero, zero})[0], outputs[0]));
  EXPECT_FALSE(near(layer.outputs({x, zero, zero + 1})[0], outputs[0]));
}

TEST(Bidirectional, SkipsMaskedStepsInBothDirections) {
  const Bidirectional layer(GRU({.units = kUnits}));
  const Tensor x = at::randn({1, 5, 4}), mask = at::tensor({1, 1, 1, 0, 0}).to(at::kBool).unsqueeze(0);
  EXPECT_TRUE(near(layer(x, {.masks = {mask}}), layer(x.narrow(1, 0, 3))));
}

TEST(Bidirectional, GivesZeroWhereAMaskHidesAStep) {
  const Bidirectional layer(LSTM({.units = 1,
                                  .kernel_initializer = initializers::Ones(),
                                  .recurrent_initializer = initializers::Ones(),
                                  .return_sequences = true}));
  const Tensor mask = at::tensor({1, 1, 0, 0}).to(at::kBool).unsqueeze(0);
  const Tensor y = layer(at::ones({1, 4, 1}), {.masks = {mask}});
  EXPECT_EQ(y.narrow(1, 2, 2).abs().max().item<double>(), 0);
  EXPECT_GT(y.narrow(1, 0, 2).min().item<double>(), 0.3);
}

TEST(RecurrentLayers, MayGiveZeroWhereAMaskHidesAStep) {
  const Tensor x = at::randn({1, 4, 3}), mask = at::tensor({1, 0, 1, 0}).to(at::kBool).unsqueeze(0);
  const auto outputs = [&](bool zero, bool sequences) {
    const GRU layer({.units = 2,
                     .kernel_initializer = initializers::Ones(),
                     .recurrent_initializer = initializers::Ones(),
                     .return_sequences = sequences,
                     .return_state = true,
                     .zero_output_for_mask = zero});
    return layer.outputs({x}, {.masks = {mask}});
  };
  const std::vector<Tensor> repeated = outputs(false, true), zeroed = outputs(true, true);
  EXPECT_TRUE(near(zeroed[0], repeated[0] * mask.unsqueeze(-1)));
  EXPECT_TRUE(near(zeroed[1], repeated[1]));
  EXPECT_EQ(outputs(true, false)[0].abs().max().item<double>(), 0);
}

TEST(Bidirectional, RefusesOtherLayers) {
  EXPECT_THAT(error_of([] { Bidirectional(Dense({.units = 2})); }),
              StartsWith("invalid_argument: bidirectional: the layer dense is none of SimpleRNN, LSTM and GRU"));
}

TEST(TimeDistributed, AppliesALayerToEachStep) {
  const Dense dense({.units = 2, .activation = activations::relu});
  const TimeDistributed layer(dense);
  const Tensor x = at::randn({3, 5, 4});
  const Tensor y = layer(x);
  EXPECT_EQ(y.sizes(), layer.compute_output_shape({3, 5, 4}));
  for (int64_t t = 0; t < 5; ++t) EXPECT_TRUE(near(y.select(1, t), dense(x.select(1, t))));
  EXPECT_EQ(layer.weights()[0].name, "dense/kernel");
  EXPECT_EQ(layer.compute_output_shape({kUnknown, kUnknown, 4}), (Shape{kUnknown, kUnknown, 2}));
  EXPECT_THAT(error_of([&] { layer(at::zeros({3, 4})); }), HasSubstr("time_distributed: the input has shape (3, 4)"));
}

TEST(TimeDistributed, GivesEachStepItsMask) {
  const Tensor x = at::randn({2, 3, 4, 5}), mask = at::rand({2, 3, 4}) > 0.5;
  const std::vector<Layer> of_sequences{GlobalAveragePooling1D(), LSTM({.units = kUnits}),
                                        Bidirectional(GRU({.units = kUnits})),
                                        Sequential({SimpleRNN({.units = kUnits}), Dense({.units = 2})})};
  for (const Layer& inner : of_sequences) {
    const Tensor y = TimeDistributed(inner)(x, {.masks = {mask}});
    for (int64_t t = 0; t < 3; ++t)
      EXPECT_TRUE(near(y.select(1, t), inner(x.select(1, t), {.masks = {mask.select(1, t)}}))) << inner.name() << t;
  }
}

TEST(TimeDistributed, HasTheMaskOfItsResult) {
  const Tensor x = at::randn({2, 3, 4, 5}), mask = at::rand({2, 3, 4}) > 0.5;
  EXPECT_TRUE(at::equal(TimeDistributed(GlobalAveragePooling1D()).compute_mask(x, mask), mask.any(2)));
  EXPECT_TRUE(
      at::equal(TimeDistributed(LSTM({.units = kUnits, .return_sequences = true})).compute_mask(x, mask), mask));
  const Tensor steps = mask.select(2, 0);
  EXPECT_TRUE(at::equal(TimeDistributed(Dense({.units = 2})).compute_mask(x.select(2, 0), steps), steps));
}

// A mask of the steps alone.
TEST(TimeDistributed, HidesWholeStepsFromALayerOfVectorsAlone) {
  const Tensor x = at::randn({4, 3, 2}), steps = at::rand({4, 3}) > 0.3;
  const BatchNormalization normalization;
  const Tensor shown = TimeDistributed(normalization)(x, {.training = true, .masks = {steps}}).index({steps});
  EXPECT_TRUE(near(shown.mean(0), at::zeros({2})));
  const Tensor sequences = at::randn({4, 3, 5, 2});
  const LSTM lstm({.units = kUnits});
  const TimeDistributed layer(lstm);
  EXPECT_TRUE(at::equal(layer(sequences, {.masks = {steps}}), layer(sequences)));
  EXPECT_THAT(error_of([&] { layer(sequences, {.masks = {steps.t()}}); }),
              HasSubstr("the mask has shape (3, 4); it must be [4, 3], or have the axes of a step behind that"));
}

}  // namespace
}  // namespace tutti::keras::layers
