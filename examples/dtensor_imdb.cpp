// Sentiment analysis on IMDB reviews with DTensor on eight logical CPUs: trains data-parallel, then goes on from the
// same checkpoints model-parallel, then spatially parallel.
//
//   dtensor_imdb [--data DIR] [--epochs 2] [--checkpoints DIR] [--seed 0] [--one_device]
//
// --one_device trains on meshes of a single CPU, to compare. Last line: "test accuracy: 0.7…".
#include <tutti/tutti.h>

#include <CLI/CLI.hpp>
#include <iostream>

using namespace tutti;
using dtensor::kUnsharded, dtensor::Layout, dtensor::Mesh;

// Parameters shared by a Dense layer; the bias is sharded like the last axis of the weight.
struct Dense : torch::nn::Module {
  Tensor weight, bias;

  Dense(int64_t in, int64_t out, uint64_t seed, const Layout& layout) {
    weight = register_parameter("weight", dtensor::call_with_layout(layout, [&] {
                                  return stateless_normal({in, out}, {.seed = seed});
                                }));
    bias = register_parameter("bias",
                              dtensor::call_with_layout(layout.delete_axes({0}), [&] { return torch::zeros({out}); }));
  }
  Tensor forward(const Tensor& x) { return torch::matmul(x, weight) + bias; }
};

struct Mlp : torch::nn::Module {
  std::shared_ptr<Dense> dense1, dense2;

  Mlp(const Layout& layout1, const Layout& layout2, uint64_t seed) {
    dense1 = register_module("dense1", std::make_shared<Dense>(1200, 48, seed + 12, layout1));
    dense2 = register_module("dense2", std::make_shared<Dense>(48, 2, seed + 34, layout2));
  }
  Tensor forward(const Tensor& x) {
    auto y = torch::relu(dense1->forward(x));
    auto [variance, mean] = torch::var_mean(y, {0}, /*correction=*/0);  // of the global batch
    y = (y - mean) * torch::rsqrt(variance + 1e-5);
    return dense2->forward(y);
  }
};

// One step of plain stochastic gradient descent; nothing in it speaks of meshes or layouts.
std::map<std::string, double> train_step(Mlp& model, const Tensor& x, const Tensor& y, double learning_rate) {
  auto logits = model.forward(x);
  auto loss = torch::nn::functional::cross_entropy(
      logits, y, torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  loss.backward();
  torch::NoGradGuard no_grad;
  for (auto& parameter : model.parameters()) {
    parameter.sub_(learning_rate * parameter.grad());
    parameter.mutable_grad().reset();
  }
  const auto accuracy = logits.argmax(-1).eq(y).to(torch::kFloat32).mean();
  return {{"loss", loss.item<double>() / x.size(0)}, {"accuracy", accuracy.item<double>()}};
}

void train_on(const std::string& title, Mlp& model, const auto& batches, const Layout& x_layout, const Layout& y_layout,
              const std::string& checkpoint_dir, int epochs) {
  std::cout << title << '\n';
  CheckpointManager manager(Checkpoint({{"root", model}}), checkpoint_dir, {.max_to_keep = 3});
  if (const auto latest = manager.latest_checkpoint()) {
    std::cout << "Restoring a checkpoint\n";
    manager.checkpoint().restore(*latest).assert_consumed();
  } else {
    std::cout << "New training\n";
  }
  for (int epoch = 0; epoch < epochs; ++epoch) {
    keras::Progbar progress({.target = batches.cardinality()});
    for (const auto& [features, labels] : batches) {
      const auto x = dtensor::shard(features, x_layout);  // splits a local tensor and packs the pieces
      const auto y = dtensor::shard(labels, y_layout);
      auto metrics = train_step(model, x, y, 1e-2);
      metrics["epoch"] = epoch;
      progress.add(1, metrics);
    }
    manager.save();
  }
}

// The share of reviews that are judged right. The model has no running statistics: it normalizes over each batch.
double evaluate(Mlp& model, const auto& batches, const Layout& x_layout, const Layout& y_layout) {
  const torch::NoGradGuard no_grad;
  double right = 0, total = 0;
  for (const auto& [features, labels] : batches) {
    const auto logits = model.forward(dtensor::shard(features, x_layout));
    right += logits.argmax(-1).eq(dtensor::shard(labels, y_layout)).sum().template item<double>();
    total += static_cast<double>(labels.size(0));
  }
  return right / total;
}

int main(int argc, char** argv) {
  CLI::App app{"IMDB sentiment analysis with DTensor"};
  std::string data_dir, checkpoint_dir = "imdb_checkpoints";
  int epochs = 2;
  uint64_t seed = 0;
  bool one_device = false;
  app.add_option("--data", data_dir, "the aclImdb folder or archive; fetched when absent");
  app.add_option("--epochs", epochs);
  app.add_option("--checkpoints", checkpoint_dir);
  app.add_option("--seed", seed, "of the initial weights");
  app.add_flag("--one_device", one_device, "meshes of a single CPU");
  CLI11_PARSE(app, argc, argv);

  const auto [train, test] = data::load_imdb(data_dir);
  const auto reviews = train.shuffle(25'000, {.seed = 1}).batch(64);
  keras::layers::TextVectorization vectorize({.max_tokens = 1200, .output_mode = keras::OutputMode::tf_idf});
  vectorize.adapt(reviews.map([](const Strings& text, const Tensor&) { return text; }));
  const auto vectors = [&](const Strings& text, const Tensor& label) { return std::tuple(vectorize(text), label); };
  const auto batches = reviews.map(vectors, {.num_parallel_calls = 2}).cache();
  const auto test_batches = test.shuffle(25'000, {.seed = 2}).batch(64).map(vectors, {.num_parallel_calls = 2});

  tune_allocator();
  const int n = one_device ? 1 : 2;
  const auto devices = configure_logical_cpus(n * n * n);
  {
    const Mesh mesh({{"batch", n * n * n}}, devices);
    Mlp model(Layout::replicated(mesh, 2), Layout::replicated(mesh, 2), seed);
    train_on("Data parallel", model, batches, Layout({"batch", kUnsharded}, mesh), Layout({"batch"}, mesh),
             checkpoint_dir, epochs);
  }
  {
    const Mesh mesh({{"batch", n * n}, {"model", n}}, devices);
    Mlp model(Layout({kUnsharded, "model"}, mesh), Layout({"model", kUnsharded}, mesh), seed);
    train_on("Model parallel", model, batches, Layout({"batch", kUnsharded}, mesh), Layout({"batch"}, mesh),
             checkpoint_dir, epochs);
  }
  {
    const Mesh mesh({{"batch", n}, {"feature", n}, {"model", n}}, devices);
    Mlp model(Layout({"feature", "model"}, mesh), Layout({"model", kUnsharded}, mesh), seed);
    const Layout x_layout({"batch", "feature"}, mesh), y_layout({"batch"}, mesh);
    train_on("Spatially parallel", model, batches, x_layout, y_layout, checkpoint_dir, epochs);
    std::cout << "test accuracy: " << evaluate(model, test_batches, x_layout, y_layout) << '\n';
  }
}
