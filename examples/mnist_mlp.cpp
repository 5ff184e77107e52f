#include <tutti/tutti.h>

#include <iostream>

using namespace tutti;
namespace layers = keras::layers;

int main() {
  set_random_seed(0);
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const auto scale = [](const Tensor& image, const Tensor& label) {
    return std::tuple(image.to(torch::kFloat32) / 255, label);
  };
  const auto [train, test] = data::load_mnist(TUTTI_EXAMPLES_DATA "/mnist");
  auto model = strategy.build([] {
    keras::Sequential model({layers::Flatten(), layers::Dense({.units = 64, .activation = keras::activations::relu}),
                             layers::Dense({.units = 10})});
    model.compile({.optimizer = keras::optimizers::Adam({.learning_rate = 1e-3}),
                   .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {keras::metrics::SparseCategoricalAccuracy({.name = "accuracy"})}});
    return model;
  });
  model.fit(train.map(scale).cache().shuffle(10'000).batch(128), {.epochs = 3});
  const auto logs = model.evaluate(test.map(scale).batch(128));
  std::cout << "test accuracy: " << logs.at("accuracy") << '\n';
}
