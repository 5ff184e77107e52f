#include "module_cases.h"

namespace tutti::equivalence {
namespace {

namespace nn = torch::nn;

// A module whose forward takes and returns one tensor.
template <class Make>
std::function<Built()> simple(Make make) {
  return [make] {
    auto module = make();
    return Built{module.ptr(), [module](const Tensors& x) mutable { return module->forward(x[0]); }};
  };
}

// A module whose forward returns a tuple, of which the first counts.
template <class Make>
std::function<Built()> first_of(Make make) {
  return [make] {
    auto module = make();
    return Built{module.ptr(), [module](const Tensors& x) mutable { return std::get<0>(module->forward(x[0])); }};
  };
}

std::function<Tensors()> normal(std::vector<int64_t> sizes) {
  return [sizes] { return Tensors{torch::randn(sizes)}; };
}

std::function<Tensors()> indices(std::vector<int64_t> sizes) {
  return [sizes] { return Tensors{torch::randint(0, 10, sizes, torch::kLong)}; };
}

template <class Activation>
ModuleCase activation(const std::string& name, Activation make) {
  return {name, simple([make] { return nn::Sequential(nn::Linear(6, 5), make()); }), normal({8, 6})};
}

std::vector<ModuleCase> layers() {
  return {
      {"Linear", simple([] { return nn::Linear(6, 4); }), normal({8, 6})},
      {"Linear3d", simple([] { return nn::Linear(6, 4); }), normal({8, 3, 6})},
      {"Conv1d", simple([] { return nn::Conv1d(nn::Conv1dOptions(3, 4, 3).padding(1)); }), normal({8, 3, 7})},
      {"Conv2d", simple([] { return nn::Conv2d(nn::Conv2dOptions(3, 4, 3).stride(2)); }), normal({8, 3, 7, 7})},
      {"Conv2dGroups", simple([] { return nn::Conv2d(nn::Conv2dOptions(4, 4, 3).groups(2).bias(false)); }),
       normal({8, 4, 6, 6})},
      {"Conv3d", simple([] { return nn::Conv3d(2, 3, 2); }), normal({4, 2, 4, 4, 4})},
      {"ConvTranspose2d", simple([] { return nn::ConvTranspose2d(3, 4, 3); }), normal({8, 3, 5, 5})},
      {"BatchNorm1d", simple([] { return nn::BatchNorm1d(6); }), normal({8, 6}), 0, true},
      {"BatchNorm2d", simple([] { return nn::BatchNorm2d(3); }), normal({8, 3, 4, 4}), 0, true},
      {"LayerNorm", simple([] { return nn::LayerNorm(nn::LayerNormOptions({6})); }), normal({8, 5, 6})},
      {"GroupNorm", simple([] { return nn::GroupNorm(2, 4); }), normal({8, 4, 3})},
      {"Embedding", simple([] { return nn::Embedding(10, 6); }), indices({8, 3}), 0, false, true},
      {"EmbeddingBag", simple([] { return nn::EmbeddingBag(10, 6); }), indices({8, 3}), 0, false, true},
      {"Dropout", simple([] { return nn::Sequential(nn::Linear(6, 6), nn::Dropout(0.5)); }), normal({8, 6})},
      {"RNN", first_of([] { return nn::RNN(6, 5); }), normal({4, 8, 6}), 1},
      {"LSTM", first_of([] { return nn::LSTM(nn::LSTMOptions(6, 5).num_layers(2).bidirectional(true)); }),
       normal({4, 8, 6}), 1},
      {"GRU", first_of([] { return nn::GRU(6, 5); }), normal({4, 8, 6}), 1},
      {"MultiheadAttention",
       [] {
         nn::MultiheadAttention module(8, 2);
         return Built{module.ptr(),
                      [module](const Tensors& x) mutable { return std::get<0>(module->forward(x[0], x[0], x[0])); }};
       },
       normal({4, 8, 8}), 1},
      {"TransformerEncoder",
       [] {
         nn::TransformerEncoder module(nn::TransformerEncoderOptions(
             nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0.0), 2));
         return Built{module.ptr(), [module](const Tensors& x) mutable { return module->forward(x[0]); }};
       },
       normal({4, 8, 8}), 1},
      {"MaxPool2d", simple([] { return nn::Sequential(nn::Conv2d(3, 4, 3), nn::MaxPool2d(2), nn::Flatten()); }),
       normal({8, 3, 8, 8})},
      {"AvgPool2d", simple([] { return nn::Sequential(nn::Conv2d(3, 4, 3), nn::AvgPool2d(2), nn::Flatten()); }),
       normal({8, 3, 8, 8})},
      {"AdaptiveAvgPool2d", simple([] { return nn::Sequential(nn::Conv2d(3, 4, 3), nn::AdaptiveAvgPool2d(2)); }),
       normal({8, 3, 8, 8})},
      {"AdaptiveMaxPool2d",
       simple([] { return nn::Sequential(nn::Conv2d(3, 4, 3), nn::AdaptiveMaxPool2d(2), nn::Flatten()); }),
       normal({8, 3, 8, 8})},
      {"MaxPool1d", simple([] { return nn::Sequential(nn::Conv1d(3, 4, 3), nn::MaxPool1d(2)); }), normal({8, 3, 8})},
      {"AvgPool1d", simple([] { return nn::Sequential(nn::Conv1d(3, 4, 3), nn::AvgPool1d(2)); }), normal({8, 3, 8})},
      {"MaxPool3d", simple([] { return nn::Sequential(nn::Conv3d(2, 3, 2), nn::MaxPool3d(2)); }),
       normal({4, 2, 5, 5, 5})},
      {"AvgPool3d", simple([] { return nn::Sequential(nn::Conv3d(2, 3, 2), nn::AvgPool3d(2)); }),
       normal({4, 2, 5, 5, 5})},
  };
}

std::vector<ModuleCase> activations() {
  return {
      activation("ReLU", [] { return nn::ReLU(); }),
      activation("ReLU6", [] { return nn::ReLU6(); }),
      activation("LeakyReLU", [] { return nn::LeakyReLU(); }),
      activation("PReLU", [] { return nn::PReLU(); }),
      activation("RReLU", [] { return nn::RReLU(); }),
      activation("ELU", [] { return nn::ELU(); }),
      activation("SELU", [] { return nn::SELU(); }),
      activation("CELU", [] { return nn::CELU(); }),
      activation("GELU", [] { return nn::GELU(); }),
      activation("SiLU", [] { return nn::SiLU(); }),
      activation("Mish", [] { return nn::Mish(); }),
      activation("Sigmoid", [] { return nn::Sigmoid(); }),
      activation("LogSigmoid", [] { return nn::LogSigmoid(); }),
      activation("Tanh", [] { return nn::Tanh(); }),
      activation("Tanhshrink", [] { return nn::Tanhshrink(); }),
      activation("Hardtanh", [] { return nn::Hardtanh(); }),
      activation("Hardshrink", [] { return nn::Hardshrink(); }),
      activation("Softshrink", [] { return nn::Softshrink(); }),
      activation("Softplus", [] { return nn::Softplus(); }),
      activation("Softsign", [] { return nn::Softsign(); }),
      activation("Softmax", [] { return nn::Softmax(1); }),
      activation("Softmin", [] { return nn::Softmin(1); }),
      activation("LogSoftmax", [] { return nn::LogSoftmax(1); }),
      activation("Threshold", [] { return nn::Threshold(0.1, 0.2); }),
      {"GLU", simple([] { return nn::Sequential(nn::Linear(6, 8), nn::GLU()); }), normal({8, 6})},
  };
}

}  // namespace

std::vector<ModuleCase> module_cases() {
  std::vector<ModuleCase> cases = layers();
  for (auto& added : activations()) cases.push_back(std::move(added));
  return cases;
}

}  // namespace tutti::equivalence
