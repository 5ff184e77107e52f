// Keras on logical parts of one GPU: fit, evaluate and predict give what they give on the host, but for roundings.
#include "gpu_test.h"

namespace tutti::gpu {
namespace {

namespace layers = keras::layers;

struct Result {
  std::vector<double> losses;
  double accuracy, predicted;
};

Result train(const std::vector<Device>& devices, bool recorded) {
  set_random_seed(1);
  MirroredStrategy strategy({.devices = devices});
  torch::manual_seed(2);
  const Tensor images = torch::randn({64, 8, 8, 1}), labels = torch::randint(4, {64}, torch::kLong);
  const auto data = data::from_tensor_slices(images, labels).batch(16);
  auto model = strategy.build([&] {
    keras::Sequential made(
        {layers::Conv2D({.filters = 4, .kernel_size = {3, 3}, .activation = keras::activations::relu}),
         layers::BatchNormalization(), layers::MaxPooling2D(), layers::Flatten(), layers::Dense({.units = 4})});
    made.compile({.optimizer = keras::optimizers::Adam({.learning_rate = 1e-3}),
                  .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                  .metrics = {keras::metrics::SparseCategoricalAccuracy({.name = "accuracy"})},
                  .run_eagerly = !recorded});
    return made;
  });
  const keras::History history = model.fit(data, {.epochs = 3, .verbose = keras::Verbose::silent});
  const auto logs = model.evaluate(data, {.verbose = keras::Verbose::silent});
  return {history.history.at("loss"), logs.at("accuracy"), model.predict(data).sum().template item<double>()};
}

class Keras : public GpuTest, public testing::WithParamInterface<std::tuple<int, bool>> {};

TEST_P(Keras, FitsAsOnTheHost) {
  const auto [replicas, recorded] = GetParam();
  const Result seen = train(parts(replicas), recorded), wanted = train(configure_logical_cpus(replicas), recorded);
  for (size_t i = 0; i < wanted.losses.size(); ++i)
    EXPECT_NEAR(seen.losses[i], wanted.losses[i], 1e-3) << "epoch " << i;
  EXPECT_NEAR(seen.accuracy, wanted.accuracy, 0.04);
  EXPECT_NEAR(seen.predicted, wanted.predicted, 0.5);
}

INSTANTIATE_TEST_SUITE_P(Replicas, Keras, testing::Combine(testing::Values(1, 2, 4), testing::Bool()),
                         [](const auto& info) {
                           return str(std::get<0>(info.param), std::get<1>(info.param) ? "Recorded" : "Eager");
                         });

TEST_F(GpuTest, RecurrentAndEmbeddingLayersTrain) {
  MirroredStrategy strategy({.devices = parts(2)});
  set_random_seed(1);
  torch::manual_seed(2);
  const Tensor words = torch::randint(50, {32, 12}, torch::kLong),
               labels = torch::randint(2, {32, 1}).to(torch::kFloat);
  auto model = strategy.build([] {
    keras::Sequential made({layers::Embedding({.input_dim = 50, .output_dim = 8, .mask_zero = true}),
                            layers::Bidirectional(layers::LSTM({.units = 6})), layers::Dropout({.rate = 0.2}),
                            layers::Dense({.units = 1})});
    made.compile({.optimizer = keras::optimizers::Adam({.learning_rate = 1e-2}),
                  .loss = keras::losses::BinaryCrossentropy({.from_logits = true})});
    return made;
  });
  const auto history =
      model.fit(data::from_tensor_slices(words, labels).batch(16), {.epochs = 8, .verbose = keras::Verbose::silent});
  EXPECT_LT(history.history.at("loss").back(), history.history.at("loss").front());
}

}  // namespace
}  // namespace tutti::gpu
