// Recurrent layers on several replicas give what one device gives.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/layers/core/embedding.h"
#include "tutti/keras/layers/recurrent/bidirectional.h"
#include "tutti/keras/layers/recurrent/gru.h"
#include "tutti/keras/layers/recurrent/lstm.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti::keras {
namespace {

// Sentences of 1 to 6 words, padded with 0.
Tensor sentences(int64_t count) {
  const Tensor lengths = at::randint(1, 7, {count, 1});
  return at::randint(1, 12, {count, 6}) * (at::arange(6) < lengths);
}

Sequential classifier(bool mask) {
  const Sequential model({layers::Embedding({.input_dim = 12, .output_dim = 5, .mask_zero = mask}),
                          layers::Bidirectional(layers::GRU({.units = 4, .return_sequences = true})),
                          layers::LSTM({.units = 3}), layers::Dense({.units = 1})});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1}),
                 .loss = losses::BinaryCrossentropy({.from_logits = true})});
  return model;
}

struct Trained {
  std::vector<Tensor> weights;
  Tensor predictions;
};

Trained train(Strategy& strategy, bool mask) {
  set_random_seed(5);
  const Tensor x = sentences(10), y = at::randint(2, {10, 1}).to(at::kFloat);
  const Sequential model = strategy.build([&] { return classifier(mask); });
  model.fit(data::from_tensor_slices(x, y).batch(4), {.epochs = 2, .verbose = Verbose::silent});
  return {model.get_weights(), model.predict(x, {.batch_size = 4})};
}

TEST(RecurrentModel, GivesTheNumbersOfOneDeviceOnReplicas) {
  for (const bool mask : {true, false}) {
    const Trained one = train(get_strategy(), mask);
    for (const int replicas : {2, 3}) {
      MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
      const Trained many = train(strategy, mask);
      for (size_t i = 0; i < one.weights.size(); ++i)
        EXPECT_TRUE(at::allclose(many.weights[i], one.weights[i], 1e-4, 1e-5)) << replicas << " replicas, weight " << i;
      EXPECT_TRUE(at::allclose(many.predictions, one.predictions, 1e-4, 1e-5)) << replicas;
    }
  }
}

TEST(RecurrentModel, PaddingBehindASentenceChangesNothing) {
  const Sequential model = classifier(/*mask=*/true);
  const Tensor x = sentences(5), longer = at::constant_pad_nd(x, {0, 3});
  EXPECT_TRUE(at::allclose(model(longer), model(x), 1e-5, 1e-6));
}

TEST(RecurrentModel, RunsInGlobalView) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  set_random_seed(5);
  const Tensor x = sentences(4);
  const Sequential mirrored = strategy.build([] { return classifier(/*mask=*/false); });
  mirrored.build({kUnknown, 6});
  const Sequential plain = classifier(/*mask=*/false);
  plain.build({kUnknown, 6});
  plain.set_weights(mirrored.get_weights());
  const Tensor result = mirrored(x);
  EXPECT_TRUE(at::allclose(is_mesh_tensor(result) ? gather(result) : result, plain(x), 1e-5, 1e-6));
}

}  // namespace
}  // namespace tutti::keras
