// A small transformer learns to write this project's documentation, character by character, on 4 x 2 logical CPUs:
// batches are cut over "batch"; attention heads, hidden units and the vocabulary over "model". The model is plain
// LibTorch, and its parameters get their layouts by name. With --plain one device gives the same losses.
//
//   char_transformer [--steps 800] [--every 100] [--plain | --separate | --tpu local] [--docs DIR]
//
// With --tpu it is trained by a TPUStrategy instead: each TPU of this host has the whole model and its share of a
// batch.
//
// In half a minute of one core's time it learns words, names and the signs of code:
//
//   step 100: loss 2.69267
//   step 200: loss 2.4771
//   step 300: loss 2.32421
//   step 400: loss 2.01187
//   step 500: loss 1.75736
//   step 600: loss 1.65025
//   step 700: loss 1.48076
//   step 800: loss 1.39796
//   ## | 1.3 mes remaxed. 2 overs for the strategy strategy as from bank a belay nothers the in in readeguless that
//   iten and and thectok theck the the the what the says telt lett says (ReduceOttoing anded) as an = [length whach
//   data.gathesset_structup = data::losse_of_datasets and errored.** return and
#include <tutti/tutti.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

using namespace tutti;
using namespace torch::nn;

constexpr int64_t kContext = 64, kWidth = 64, kHeads = 4, kCharacters = 128, kBatch = 32;

struct Block : Module {
  LayerNorm norm1 = register_module("norm1", LayerNorm(LayerNormOptions({kWidth})));
  Linear query = register_module("query", Linear(kWidth, kWidth));
  Linear key = register_module("key", Linear(kWidth, kWidth));
  Linear value = register_module("value", Linear(kWidth, kWidth));
  Linear out = register_module("out", Linear(kWidth, kWidth));
  LayerNorm norm2 = register_module("norm2", LayerNorm(LayerNormOptions({kWidth})));
  Linear up = register_module("up", Linear(kWidth, 4 * kWidth));
  Linear down = register_module("down", Linear(4 * kWidth, kWidth));

  Tensor attention(const Tensor& x) {
    const auto heads = [](const Tensor& y) {  // [b, t, width] -> [b, heads, t, width / heads]
      return y.view({y.size(0), y.size(1), kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const Tensor mixed = torch::scaled_dot_product_attention(heads(query(x)), heads(key(x)), heads(value(x)), {},
                                                             /*dropout_p=*/0, /*is_causal=*/true);
    return out(mixed.transpose(1, 2).reshape(x.sizes()));
  }
  Tensor forward(Tensor x) {
    x = x + attention(norm1(x));
    return x + down(torch::gelu(up(norm2(x))));
  }
};

struct Decoder : Module {
  Embedding embedding = register_module("embedding", Embedding(kCharacters, kWidth));
  Embedding position = register_module("position", Embedding(kContext, kWidth));
  Sequential blocks = register_module("blocks", Sequential(Block(), Block()));
  LayerNorm norm = register_module("norm", LayerNorm(LayerNormOptions({kWidth})));
  Linear head = register_module("head", Linear(kWidth, kCharacters));

  Tensor forward(const Tensor& characters) {  // [b, t] -> logits [b, t, characters]
    const Tensor x = embedding(characters) + position->weight.narrow(0, 0, characters.size(1));
    return head(norm(blocks->forward(x)));
  }
};

// The ASCII characters of all pages, in the order of their names: int64 [n].
static Tensor read_pages(const std::filesystem::path& folder) {
  std::vector<int64_t> characters;
  for (const auto& page : data::match_files((folder / "*.md").string())) {
    std::ifstream file(page);
    for (const char c : std::string(std::istreambuf_iterator<char>(file), {}))
      if (c >= 0) characters.push_back(c);
  }
  return torch::tensor(characters);
}

static void learn(Decoder& model, const auto& batches, int steps, int every) {
  torch::optim::Adam optimizer(model.parameters(), 3e-3);
  int step = 0;
  for (auto batch = batches.begin(); step < steps; ++batch) {
    const auto& [x, y] = *batch;
    optimizer.zero_grad();
    const Tensor loss = torch::cross_entropy_loss(model.forward(x).flatten(0, 1), y.flatten());
    loss.backward();
    optimizer.step();
    if (++step % every == 0) std::cout << "step " << step << ": loss " << loss.item<float>() << std::endl;
  }
}

// Every replica on its share of the batch, as one compiled function.
static void learn_on_tpus(Strategy& strategy, Decoder& model, const auto& samples, int steps, int every) {
  const keras::optimizers::Adam optimizer({.learning_rate = 3e-3});
  const auto parameters = model.parameters();
  const auto replica_step = [&](const Tensor& x, const Tensor& y) {
    const Tensor loss = torch::cross_entropy_loss(model.forward(x).flatten(0, 1), y.flatten());
    const Tensor share = loss / strategy.num_replicas_in_sync();
    optimizer.apply_gradients(gradients(share, parameters), parameters);
    return share.detach();
  };
  const auto train = function([&](const PerReplica<std::tuple<Tensor, Tensor>>& batch) {
    return strategy.reduce(ReduceOp::sum, strategy.run(replica_step, batch));
  });
  int step = 0;
  for (const auto& batch : strategy.distribute(samples.batch(kBatch).take(steps))) {
    const Tensor loss = train(batch);
    if (++step % every == 0) std::cout << "step " << step << ": loss " << loss.item<float>() << std::endl;
  }
}

static std::string write(Decoder& model, int64_t length) {
  const torch::NoGradGuard no_grad;
  std::vector<int64_t> text{'#', '#', ' '};
  while (static_cast<int64_t>(text.size()) < length) {
    const Tensor last = torch::tensor(text).slice(0, -kContext).unsqueeze(0);
    const Tensor logits = gather(model.forward(last)).select(1, -1) / 0.7;
    text.push_back(torch::multinomial(logits.softmax(-1), 1).item<int64_t>());
  }
  return {text.begin(), text.end()};
}

int main(int argc, char** argv) {
  CLI::App app{"A character transformer with its layouts by name"};
  std::string docs = TUTTI_EXAMPLES_DATA "/../../docs", tpu;
  int steps = 800, every = 100;
  bool plain = false, separate = false;
  app.add_option("--docs", docs, "folder of the pages to learn from");
  app.add_option("--steps", steps, "batches to train on");
  app.add_option("--every", every, "steps between the losses that are printed");
  app.add_flag("--plain", plain, "one device, no mesh");
  app.add_flag("--separate", separate, "a buffer for every shard, as on devices that share no memory");
  app.add_option("--tpu", tpu, "local: the TPUs of this host");
  CLI11_PARSE(app, argc, argv);

  tune_allocator();
  torch::set_num_threads(1);  // at this size a thread that waits for another costs more than it computes
  set_random_seed(0);
  const auto windows = data::from_tensor_slices(read_pages(docs).unfold(0, kContext + 1, 7));
  const auto samples = windows.shuffle(20'000, {.seed = 1}).repeat().map([](const Tensor& window) {
    return std::tuple(window.narrow(0, 0, kContext), window.narrow(0, 1, kContext));
  });
  const auto make = [] { return std::make_shared<Decoder>(); };
  std::shared_ptr<Decoder> model;
  if (!tpu.empty()) {
    const cluster::TPUClusterResolver resolver({.tpu = tpu});
    connect_to_cluster(resolver);
    tpu::initialize_tpu_system(resolver);
    TPUStrategy strategy(resolver);
    model = strategy.build(make);
    learn_on_tpus(strategy, *model, samples, steps, every);
  } else if (plain) {
    model = make();
    learn(*model, samples.batch(kBatch).prefetch(2), steps, every);
  } else {
    const Mesh mesh({{"batch", 4}, {"model", 2}}, configure_logical_cpus(8), {.merge = !separate});
    model = dtensor::LayoutMap(mesh, {{"(query|key|value|up|head|embedding).weight", {"model", kUnsharded}},
                                      {"(query|key|value|up|head).bias", {"model"}},
                                      {"(out|down).weight", {kUnsharded, "model"}}})
                .build(make);
    const Layout rows = Layout::batch_sharded(mesh, "batch", 2);
    const dtensor::DTensorDataset batches(
        samples,
        {.mesh = mesh, .layouts = {rows, rows}, .global_batch_size = kBatch, .batch_dim = "batch", .prefetch = 2});
    learn(*model, batches, steps, every);
  }
  std::cout << write(*model, 300) << '\n';
}
