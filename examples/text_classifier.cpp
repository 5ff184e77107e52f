// Says whether a film review is positive: words become vectors that an LSTM reads in both directions. IMDB, on two
// replicas.
//
//   text_classifier [--data DIR] [--replicas 2] [--epochs 2] [--seed 0]
//
// Prints the model, then (two cores, busy with other work too):
//
//   Epoch 1/2
//   391/391 - 34s - 87ms/step - accuracy: 0.7720 - loss: 0.4661
//   Epoch 2/2
//   391/391 - 30s - 78ms/step - accuracy: 0.8762 - loss: 0.3060
//   391/391 - 10s - 27ms/step - accuracy: 0.8208 - loss: 0.4111
//   test accuracy: 0.8208
#include <tutti/tutti.h>

#include <CLI/CLI.hpp>
#include <iostream>

using namespace tutti;
namespace layers = keras::layers;

int main(int argc, char** argv) {
  CLI::App app{"Film reviews with Embedding and LSTM"};
  std::string data_dir;
  int replicas = 2;
  int epochs = 2;
  uint64_t seed = 0;
  app.add_option("--data", data_dir, "the aclImdb folder or archive; fetched when absent");
  app.add_option("--replicas", replicas, "number of logical CPU devices");
  app.add_option("--epochs", epochs);
  app.add_option("--seed", seed);
  CLI11_PARSE(app, argc, argv);

  tune_allocator();
  set_random_seed(seed);
  const auto [train, test] = data::load_imdb(data_dir);
  const auto reviews = train.shuffle(25'000, {.seed = 1}).batch(64);
  layers::TextVectorization vectorize({.max_tokens = 8000, .output_sequence_length = 120});
  vectorize.adapt(reviews.map([](const Strings& text, const Tensor&) { return text; }));
  const auto ids = [&](const Strings& text, const Tensor& label) {
    return std::tuple(vectorize(text), label.to(torch::kFloat32).unsqueeze(-1));
  };

  MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
  const auto model = strategy.build([] {
    const auto words = keras::Input({.shape = {keras::kUnknown}, .name = "words"});
    const auto vectors = layers::Embedding({.input_dim = 8000, .output_dim = 32, .mask_zero = true})(words);
    const auto review = layers::Bidirectional(layers::LSTM({.units = 24}))(vectors);
    const auto hidden = layers::Dropout({.rate = 0.3})(review);
    keras::Model built({.inputs = {words},
                        .outputs = {layers::Dense({.units = 1, .activation = keras::activations::sigmoid})(hidden)},
                        .name = "reviews"});
    built.compile({.optimizer = keras::optimizers::Adam({.learning_rate = 2e-3, .global_clipnorm = 1.0}),
                   .loss = keras::losses::BinaryCrossentropy(),
                   .metrics = {keras::metrics::BinaryAccuracy({.name = "accuracy"})}});
    return built;
  });
  model.summary(std::cout);
  model.fit(reviews.map(ids, {.num_parallel_calls = 2}).cache(), {.epochs = epochs});
  const auto logs = model.evaluate(test.batch(64).map(ids, {.num_parallel_calls = 2}));
  std::cout << "test accuracy: " << logs.at("accuracy") << '\n';
}
