// Language models, as LibTorch's tutorials write them, on a batch that is sharded over devices with buffers of their
// own.
#include <chrono>

#include "like_one_device.h"
#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/distribute/mirrored_strategy.h"

namespace tutti::rules {
namespace {

namespace nn = torch::nn;
using torch::Tensor;

constexpr int64_t kBatch = 8, kSteps = 12, kTokens = 300, kWidth = 32, kHeads = 4;
constexpr int kTrainingSteps = 5;

struct RecurrentModelImpl : nn::Module {
  RecurrentModelImpl() {
    register_module("embedding", embedding);
    register_module("lstm", lstm);
    register_module("decoder", decoder);
  }
  Tensor forward(const Tensor& tokens) {
    const auto [y, next] = state ? lstm(embedding(tokens), *state) : lstm(embedding(tokens));
    state = {std::get<0>(next).detach(), std::get<1>(next).detach()};  // goes on with the next batch
    return decoder(y);
  }
  nn::Embedding embedding{kTokens, kWidth};
  nn::LSTM lstm{nn::LSTMOptions(kWidth, kWidth).num_layers(2).batch_first(true)};
  nn::Linear decoder{kWidth, kTokens};
  std::optional<std::tuple<Tensor, Tensor>> state;
};
TORCH_MODULE(RecurrentModel);

struct TransformerModelImpl : nn::Module {
  TransformerModelImpl() {
    register_module("embedding", embedding);
    register_module("encoder", encoder);
    register_module("decoder", decoder);
  }
  Tensor forward(const Tensor& tokens) {
    const Tensor mask = torch::full({kSteps, kSteps}, -std::numeric_limits<float>::infinity()).triu(1);
    return decoder(encoder(embedding(tokens).transpose(0, 1) * std::sqrt(kWidth), mask).transpose(0, 1));
  }
  nn::Embedding embedding{kTokens, kWidth};
  nn::TransformerEncoder encoder{
      nn::TransformerEncoderLayer(
          nn::TransformerEncoderLayerOptions(kWidth, kHeads).dim_feedforward(2 * kWidth).dropout(0.0)),
      2};
  nn::Linear decoder{kWidth, kTokens};
};
TORCH_MODULE(TransformerModel);

// The losses, and in `seconds` how long each step took.
template <class Model>
std::vector<double> train(Model model, const TensorFunction& place, std::vector<double>& seconds) {
  torch::optim::Adam adam(model->parameters(), torch::optim::AdamOptions(1e-2));
  std::vector<double> losses;
  for (int step = 0; step < kTrainingSteps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    const Tensor text = torch::arange(kBatch * (kSteps + 1)).mul(7 + step).remainder(kTokens).view({kBatch, -1});
    const Tensor tokens = place(text.slice(1, 0, kSteps).contiguous()), next = place(text.slice(1, 1).contiguous());
    adam.zero_grad();
    const Tensor loss = nn::functional::cross_entropy(model(tokens).reshape({-1, kTokens}), next.reshape(-1));
    loss.backward();
    nn::utils::clip_grad_norm_(model->parameters(), 0.5);
    adam.step();
    losses.push_back(loss.template item<double>());
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return losses;
}

template <class Model>
void expect_training_of_one_device() {
  const Watchdog watchdog(std::chrono::seconds(60));
  std::vector<double> seconds, seconds_plain;
  torch::manual_seed(3);
  const auto expected = train(
      Model(), [](const Tensor& t) { return t; }, seconds_plain);
  MirroredStrategy strategy({.devices = test_devices(4), .mesh = {.merge = false}});
  torch::manual_seed(3);
  const Model model = strategy.build([] { return Model(); });
  const auto seen = train(
      model,
      [&](const Tensor& t) { return distribute_tensor(t, Layout::batch_sharded(strategy.mesh(), "replica", 2)); },
      seconds);
  for (int step = 0; step < kTrainingSteps; ++step) EXPECT_NEAR(seen[step], expected[step], 1e-3) << "step " << step;
  testing::Test::RecordProperty("third_step_in_steps_of_one_device", seconds[2] / seconds_plain[2]);
  testing::Test::RecordProperty("third_step_in_seconds", seconds[2]);
}

TEST(LanguageModels, OfLstmTrainAsOnOneDevice) { expect_training_of_one_device<RecurrentModel>(); }
TEST(LanguageModels, OfTransformersTrainAsOnOneDevice) { expect_training_of_one_device<TransformerModel>(); }

}  // namespace
}  // namespace tutti::rules
