// Saves models of many kinds, each with inputs of some batch sizes and what the model gives for them:
//   write_models FOLDER
// makes FOLDER/NAME/ (a saved model) and FOLDER/NAME_BATCH.safetensors (inputs "x0", "x1", results "y0", …).
#include <tutti/tutti.h>

#include <iostream>

using namespace tutti;
using namespace tutti::keras::layers;

namespace {

std::filesystem::path root;

// Random numbers, or ids.
Tensor sample(const saved_model::Spec& spec, int64_t batch) {
  std::vector<int64_t> shape = spec.shape;
  std::replace(shape.begin(), shape.end(), kUnknown, batch);
  return spec.dtype == torch::kLong ? torch::randint(0, 50, shape, torch::kLong) : torch::randn(shape);
}

template <class F>
void write(const std::string& name, const F& f, const std::vector<saved_model::Spec>& inputs,
           const std::map<std::string, Tensor>& variables = {}) {
  saved_model::save(root / name, {.signatures = {{"f", saved_model::Signature(f, {.inputs = inputs})}},
                                  .variables = variables,
                                  .onnx = saved_model::OnnxOptions{},
                                  .pt2 = true});
  const auto loaded = saved_model::load(root / name).signature("f");
  torch::NoGradGuard no_grad;
  for (const int64_t batch : {1, 5, 64}) {
    saved_model::Inputs values;
    std::map<std::string, Tensor> tensors;
    for (const auto& spec : loaded.inputs()) {
      const Tensor x = sample(spec, batch);
      values.emplace(spec.name, x);
      tensors.emplace("x" + std::to_string(tensors.size()), x);
    }
    const Tensor expected = [&] {
      if constexpr (std::is_invocable_v<F, Tensor, Tensor>)
        return f(tensors.at("x0"), tensors.at("x1"));
      else
        return f(tensors.at("x0"));
    }();
    if (!loaded(values).at("output_0").tensor().equal(expected))
      throw std::runtime_error(name + " differs when loaded");
    tensors.emplace("y0", expected);
    checkpoint::save_safetensors(checkpoint::posix_file_system(),
                                 root / (name + '_' + std::to_string(batch) + ".safetensors"), tensors);
  }
  std::cout << name << '\n';
}

std::map<std::string, Tensor> state_of(torch::nn::Module& module) {
  std::map<std::string, Tensor> state;
  for (const auto& item : module.named_parameters()) state.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) state.emplace(item.key(), item.value());
  return state;
}

template <class Model>
void write_keras(const std::string& name, const Model& model, const saved_model::Spec& input) {
  const Tensor x = sample(input, 9);
  model(x);
  if (x.is_floating_point())
    for (int i = 0; i < 3; ++i) model(x, {.training = true});  // running statistics
  write(name, [&](const Tensor& x) { return model(x); }, {input});
}

template <class Module>
void write_module(const std::string& name, Module module, const saved_model::Spec& input) {
  for (int i = 0; i < 3; ++i) module->forward(sample(input, 9));
  module->eval();
  write(
      name, [&](const Tensor& x) { return module->forward(x); }, {input}, state_of(*module));
}

void write_keras_models() {
  const saved_model::Spec image = saved_model::TensorSpec({.name = "image", .shape = {kUnknown, 14, 14, 1}});
  const saved_model::Spec words =
      saved_model::TensorSpec({.name = "words", .shape = {kUnknown, 12}, .dtype = torch::kLong});
  write_keras(
      "keras_mlp",
      keras::Sequential({Dense({.units = 16, .activation = keras::activations::gelu}), BatchNormalization(),
                         Dropout({.rate = 0.3}), Dense({.units = 3, .activation = keras::activations::softmax})}),
      saved_model::TensorSpec({.name = "x", .shape = {kUnknown, 20}}));
  write_keras(
      "keras_cnn",
      keras::Sequential({Conv2D({.filters = 8, .kernel_size = {3, 3}, .padding = Padding::same}), BatchNormalization(),
                         ReLU(), MaxPooling2D(), SeparableConv2D({.filters = 4, .kernel_size = {3, 3}}), Flatten(),
                         Dense({.units = 10})}),
      image);
  write_keras(
      "keras_lstm",
      keras::Sequential({Embedding({.input_dim = 50, .output_dim = 8}), LSTM({.units = 16}), Dense({.units = 4})}),
      words);
  write_keras("keras_gru",
              keras::Sequential({Embedding({.input_dim = 50, .output_dim = 8}),
                                 Bidirectional(GRU({.units = 6, .return_sequences = true})), GlobalAveragePooling1D(),
                                 Dense({.units = 4})}),
              words);
  {
    const auto ids = keras::Input({.shape = {12}});
    const auto embedded = Embedding({.input_dim = 50, .output_dim = 16})(ids);
    const auto attended = MultiHeadAttention({.num_heads = 2, .key_dim = 8})({embedded, embedded});
    const auto normal = LayerNormalization()(Add()({embedded, attended}));
    const auto wide = Dense({.units = 32, .activation = keras::activations::gelu})(normal);
    const auto out = LayerNormalization()(Add()({normal, Dense({.units = 16})(wide)}));
    write_keras("keras_transformer", keras::Model({.inputs = {ids}, .outputs = {Dense({.units = 5})(out)}}), words);
  }
  {
    const auto pixels = keras::Input({.shape = {14, 14, 1}});
    const auto wide = Conv2D({.filters = 6, .kernel_size = {3, 3}, .padding = Padding::same})(pixels);
    const auto inner = ReLU()(BatchNormalization()(wide));
    const auto added = Add()({Conv2D({.filters = 6, .kernel_size = {3, 3}, .padding = Padding::same})(inner), wide});
    const auto out = Dense({.units = 10})(GlobalAveragePooling2D()(ReLU()(BatchNormalization()(added))));
    write_keras("keras_resnet", keras::Model({.inputs = {pixels}, .outputs = {out}}), image);
  }
}

struct ConvNet : torch::nn::Module {
  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(8));
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d(8, 16, 3));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(16 * 25, 10));
  Tensor forward(Tensor x) {
    x = conv2(torch::max_pool2d(torch::relu(norm(conv1(x))), 2));
    torch::relu_(x);
    return torch::softmax(out(x.view({x.size(0), -1})), 1);
  }
};

struct Recurrent : torch::nn::Module {
  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(50, 8));
  torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(8, 16).batch_first(true)));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(16, 4));
  Tensor forward(const Tensor& x) {
    const Tensor steps = std::get<0>(lstm->forward(embedding->forward(x)));
    return torch::log_softmax(out->forward(steps.select(1, -1)), 1);
  }
};

struct Gated : torch::nn::Module {
  torch::nn::GRU gru =
      register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(8, 16).num_layers(2).batch_first(true)));
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
  Tensor forward(const Tensor& x) { return norm->forward(std::get<0>(gru->forward(x))).mean(1); }
};

struct Block : torch::nn::Module {
  torch::nn::Conv2d one = register_module("one", torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3).padding(1)));
  torch::nn::BatchNorm2d norm = register_module("norm", torch::nn::BatchNorm2d(4));
  Tensor forward(const Tensor& x) { return x + torch::relu(norm(one(x))); }
};

struct ResNet : torch::nn::Module {
  torch::nn::Sequential blocks =
      register_module("blocks", torch::nn::Sequential(Block(), Block(), torch::nn::AdaptiveAvgPool2d(1)));
  Tensor forward(const Tensor& x) { return blocks->forward(x).flatten(1); }
};

struct Encoder : torch::nn::Module {
  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(50, 16));
  torch::nn::TransformerEncoderLayer layer = register_module(
      "layer",
      torch::nn::TransformerEncoderLayer(torch::nn::TransformerEncoderLayerOptions(16, 2).dim_feedforward(32)));
  Tensor forward(const Tensor& x) { return layer->forward(embedding->forward(x).transpose(0, 1)).transpose(0, 1); }
};

void write_modules() {
  const saved_model::Spec words =
      saved_model::TensorSpec({.name = "words", .shape = {kUnknown, 12}, .dtype = torch::kLong});
  write_module("torch_mlp",
               torch::nn::Sequential(torch::nn::Linear(20, 16), torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                                     torch::nn::Dropout(0.3), torch::nn::Linear(16, 3)),
               saved_model::TensorSpec({.name = "x", .shape = {kUnknown, 20}}));
  write_module("torch_cnn", std::make_shared<ConvNet>(),
               saved_model::TensorSpec({.name = "image", .shape = {kUnknown, 1, 14, 14}}));
  write_module("torch_resnet", std::make_shared<ResNet>(),
               saved_model::TensorSpec({.name = "image", .shape = {kUnknown, 4, 9, 9}}));
  write_module("torch_lstm", std::make_shared<Recurrent>(), words);
  write_module("torch_gru", std::make_shared<Gated>(),
               saved_model::TensorSpec({.name = "x", .shape = {kUnknown, 12, 8}}));
  write_module("torch_transformer", std::make_shared<Encoder>(), words);
  torch::nn::Bilinear bilinear(6, 5, 3);
  write(
      "torch_bilinear", [&](const Tensor& a, const Tensor& b) { return bilinear->forward(a, b) * 0.5 + a.size(0); },
      {saved_model::TensorSpec({.name = "a", .shape = {kUnknown, 6}}),
       saved_model::TensorSpec({.name = "b", .shape = {kUnknown, 5}})},
      state_of(*bilinear));
  const Tensor matrix = torch::randn({400, 10}), row = torch::randn({10});
  write("torch_addmm", [&](const Tensor& x) { return torch::addmm(torch::addmm(row, x, matrix), x, matrix, 2); },
        {saved_model::TensorSpec({.name = "x", .shape = {kUnknown, 400}})}, {{"matrix", matrix}, {"row", row}});
}

}  // namespace

int main(int, char** argv) {
  root = argv[1];
  std::filesystem::create_directories(root);
  torch::set_num_threads(1);
  torch::manual_seed(1);
  write_keras_models();
  write_modules();
}
