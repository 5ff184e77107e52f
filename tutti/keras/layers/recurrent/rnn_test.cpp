#include "tutti/keras/layers/recurrent/rnn.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/layers/recurrent/simple_rnn.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

bool almost(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 1e-5, 1e-6); }

struct CellAndLayer {
  const char* name;
  std::function<RNNCell()> cell;
  std::function<Layer(bool sequences, bool backwards)> layer;
};

std::vector<CellAndLayer> cells_and_layers() {
  return {
      {"SimpleRNN", [] { return SimpleRNNCell({.units = 2}); },
       [](bool sequences, bool backwards) {
         return SimpleRNN({.units = 2, .return_sequences = sequences, .return_state = true, .go_backwards = backwards});
       }},
      {"GRU", [] { return GRUCell({.units = 2, .reset_after = false}); },
       [](bool sequences, bool backwards) {
         return GRU({.units = 2,
                     .reset_after = false,
                     .return_sequences = sequences,
                     .return_state = true,
                     .go_backwards = backwards});
       }},
      {"LSTM", [] { return LSTMCell({.units = 2}); },
       [](bool sequences, bool backwards) {
         return LSTM({.units = 2, .return_sequences = sequences, .return_state = true, .go_backwards = backwards});
       }}};
}

TEST(RNN, OfACellIsTheLayerOfThatName) {
  const Tensor x = at::randn({3, 5, 4}), mask = at::tensor({1, 1, 0, 1, 0}).to(at::kBool).expand({3, 5});
  for (const CellAndLayer& kind : cells_and_layers())
    for (const bool sequences : {false, true})
      for (const bool backwards : {false, true}) {
        const Layer layer = kind.layer(sequences, backwards);
        const RNN rnn(kind.cell(), {.return_sequences = sequences, .return_state = true, .go_backwards = backwards});
        layer.build({kUnknown, 5, 4});
        rnn.build({kUnknown, 5, 4});
        rnn.set_weights(layer.get_weights());
        for (const CallOptions& options : {CallOptions{}, CallOptions{.masks = {mask}}}) {
          const std::vector<Tensor> outputs = rnn.outputs({x}, options), expected = layer.outputs({x}, options);
          ASSERT_EQ(outputs.size(), expected.size());
          for (size_t i = 0; i < outputs.size(); ++i) EXPECT_TRUE(almost(outputs[i], expected[i])) << kind.name << i;
        }
        EXPECT_EQ(rnn.weights().size(), layer.weights().size());
        EXPECT_EQ(rnn.compute_output_shape({kUnknown, 5, 4}), layer.compute_output_shape({kUnknown, 5, 4}));
      }
}

TEST(RNN, StacksCells) {
  const RNN both(StackedRNNCells({GRUCell({.units = 3}), LSTMCell({.units = 2})}), {.return_state = true});
  const Tensor x = at::randn({3, 5, 4});
  const std::vector<Tensor> outputs = both.outputs({x});
  ASSERT_EQ(outputs.size(), 4U);
  const GRU first({.units = 3, .return_sequences = true});
  const LSTM second({.units = 2});
  const std::vector<Tensor> weights = both.get_weights();
  first.build({kUnknown, 5, 4});
  second.build({kUnknown, 5, 3});
  first.set_weights({weights.begin(), weights.begin() + 3});
  second.set_weights({weights.begin() + 3, weights.end()});
  EXPECT_TRUE(almost(outputs[0], second(first(x))));
  EXPECT_EQ(both.weights()[0].name, "stacked_rnn_cells/gru_cell/kernel");
  EXPECT_TRUE(almost(both.outputs({x, at::zeros({3, 3}), at::zeros({3, 2}), at::zeros({3, 2})})[0], outputs[0]));
}

// Sums what it sees.
class Sums : public RNNCellImpl {
 public:
  Sums() : RNNCellImpl("Sums", "") {}
  std::vector<int64_t> state_sizes() const override { return {2}; }
  std::vector<Tensor> call_all(const std::vector<Tensor>& inputs, const CallOptions&) const override {
    const Tensor sum = inputs[0] + inputs[1];
    return {sum * 10, sum};
  }
};

TEST(RNN, TakesACellOfOnesOwn) {
  const RNN rnn(RNNCell(std::make_shared<Sums>()), {.return_sequences = true, .return_state = true});
  const std::vector<Tensor> outputs = rnn.outputs({at::ones({1, 3, 2})});
  EXPECT_TRUE(almost(outputs[0][0].select(1, 0), at::tensor({10.F, 20.F, 30.F})));
  EXPECT_TRUE(almost(outputs[1], at::ones({1, 2}) * 3));
  const Tensor mask = at::tensor({1, 0, 1}).to(at::kBool).unsqueeze(0);
  EXPECT_TRUE(
      almost(rnn.outputs({at::ones({1, 3, 2})}, {.masks = {mask}})[0][0].select(1, 0), at::tensor({10.F, 10.F, 20.F})));
  const RNN zeroing(RNNCell(std::make_shared<Sums>()), {.return_sequences = true, .zero_output_for_mask = true});
  EXPECT_TRUE(almost(zeroing(at::ones({1, 3, 2}), {.masks = {mask}})[0].select(1, 0), at::tensor({10.F, 0.F, 20.F})));
  EXPECT_THAT(error_of([&] {
                rnn.outputs({at::ones({1, 3, 2}), at::ones({1, 3})});
              }),
              HasSubstr("a first state has shape (1, 3); it must be (1, 2)"));
}

// A step that shows what is left of x and of its state, 1 each.
TEST(RNN, DropsTheSameFeaturesInAllSteps) {
  const Tensor x = at::ones({8, 4, 3});
  const auto identity = [](const RNNCell& cell) {
    const RNN rnn(cell, {.return_sequences = true});
    rnn.build({kUnknown, 4, 3});
    rnn.set_weights({at::eye(3), at::eye(3), at::zeros({3})});
    return rnn;
  };
  const RNN of_input = identity(SimpleRNNCell({.units = 3, .activation = {}, .dropout = 0.5}));
  const Tensor sums = of_input(x, {.training = true});
  const Tensor kept = sums.select(1, 0);  // 0 or 2
  EXPECT_TRUE(at::equal(kept * (kept - 2), at::zeros_like(kept)));
  EXPECT_GT(kept.sum().item<float>(), 0);
  EXPECT_LT(kept.sum().item<float>(), 48);
  for (int64_t t = 1; t < 4; ++t) EXPECT_TRUE(at::equal(sums.select(1, t), kept * (t + 1)));
  EXPECT_FALSE(at::equal(of_input(x, {.training = true}), sums));
  EXPECT_TRUE(at::equal(of_input(x).select(1, 3), at::ones({8, 3}) * 4));

  const RNN of_state = identity(SimpleRNNCell({.units = 3, .activation = {}, .recurrent_dropout = 0.5}));
  const Tensor states = of_state(x, {.training = true});
  EXPECT_TRUE(at::equal(states.select(1, 0), at::ones({8, 3})));
  const Tensor mask = states.select(1, 1) - 1;
  for (int64_t t = 1; t < 4; ++t) EXPECT_TRUE(at::equal(states.select(1, t), states.select(1, t - 1) * mask + 1));
}

TEST(RNN, OfCellsThatDropHasASlopeAndStacks) {
  const RNN rnn(
      StackedRNNCells({GRUCell({.units = 3, .dropout = 0.3}), LSTMCell({.units = 2, .recurrent_dropout = 0.3}),
                       SimpleRNNCell({.units = 2, .dropout = 0.2, .recurrent_dropout = 0.2})}));
  const Tensor x = at::randn({3, 5, 4});
  EXPECT_FALSE(at::equal(rnn(x, {.training = true}), rnn(x, {.training = true})));
  EXPECT_TRUE(at::equal(rnn(x), rnn(x)));
  EXPECT_EQ(rnn(x, {.training = true}).sizes(), at::IntArrayRef({3, 2}));
  const LSTMCell alone({.units = 2, .dropout = 0.5});
  EXPECT_FALSE(
      at::equal(alone.outputs({at::ones({9, 4}), at::zeros({9, 2}), at::zeros({9, 2})}, {.training = true})[0],
                alone.outputs({at::ones({9, 4}), at::zeros({9, 2}), at::zeros({9, 2})}, {.training = true})[0]));
  EXPECT_THAT(error_of([] { GRUCell({.units = 2, .recurrent_dropout = 1.5}); }),
              HasSubstr("gru_cell: a dropout rate is 1.5; it must be in [0, 1)"));
}

TEST(RNN, Trains) {
  const Sequential model({RNN(LSTMCell({.units = 4})), Dense({.units = 1})});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1}), .loss = losses::MeanSquaredError()});
  const Tensor x = at::randn({16, 5, 2}), y = x.sum({1, 2}).unsqueeze(1);
  const History history = model.fit(x, y, {.epochs = 10, .verbose = Verbose::silent});
  EXPECT_LT(history.history.at("loss").back(), history.history.at("loss").front());
}

TEST(Stateful, GoesOnWhereTheLastBatchEnded) {
  const Tensor x = at::randn({4, 6, 3}), mask = at::ones({4, 3}, at::kBool);
  const auto check = [&](const auto& layer, const Layer& plain) {
    layer.build({kUnknown, 3, 3});
    plain.build({kUnknown, 6, 3});
    plain.set_weights(layer.get_weights());
    for (const CallOptions& options : {CallOptions{}, CallOptions{.masks = {mask}}}) {
      layer.reset_state();
      const Tensor begin = layer(x.narrow(1, 0, 3), options);
      EXPECT_TRUE(almost(layer(x.narrow(1, 3, 3), options), plain(x))) << layer.name();
      EXPECT_THAT(error_of([&] {
                    layer(at::zeros({2, 3, 3}));
                  }),
                  HasSubstr("the batch has 2 samples, the one before had 4"));
      layer.reset_state();
      EXPECT_TRUE(almost(layer(x.narrow(1, 0, 3), options), begin)) << layer.name();
    }
  };
  check(LSTM({.units = 2, .stateful = true}), LSTM({.units = 2}));
  check(GRU({.units = 2, .stateful = true}), GRU({.units = 2}));
  check(SimpleRNN({.units = 2, .stateful = true}), SimpleRNN({.units = 2}));
  check(RNN(GRUCell({.units = 2}), {.stateful = true}), RNN(GRUCell({.units = 2})));
}

class StatefulModel : public ModelImpl {
 public:
  StatefulModel() : ModelImpl("StatefulModel") {}
  Tensor call(const Tensor& x, const CallOptions&) const override { return head_(lstm_(x)); }

 private:
  LSTM lstm_ = add(LSTM({.units = 2, .stateful = true}));
  Dense head_ = add(Dense({.units = 1}));
};

TEST(Stateful, TrainsUnderReplicasAndIsNotTouchedByBuilding) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const Model model = strategy.build([] { return Model(std::make_shared<StatefulModel>()); });
  model.compile({.optimizer = optimizers::SGD(), .loss = losses::MeanSquaredError()});
  EXPECT_EQ(error_of([&] {
              model.fit(at::randn({8, 3, 2}), at::randn({8, 1}),
                        {.batch_size = 4, .epochs = 2, .verbose = Verbose::silent, .shuffle = false});
            }),
            "no error");
}

}  // namespace
}  // namespace tutti::keras::layers
