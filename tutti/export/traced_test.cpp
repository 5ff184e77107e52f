// Models of TorchScript, as torch.jit.trace writes them, saved in our form.
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "tutti/export/same_bits.h"
#include "tutti/export/saved_model.h"

namespace tutti::saved_model {
namespace {

// As it comes out of a file.
torch::jit::Module traced(const std::string& forward, const std::map<std::string, Tensor>& parameters) {
  const TemporaryFolder folder;
  torch::jit::Module module("net");
  for (const auto& [name, value] : parameters) module.register_parameter(name, value, /*is_buffer=*/false);
  module.define(forward);
  module.save(folder / "net.pt");
  return torch::jit::load(folder / "net.pt");
}

void expect_saves(const torch::jit::Module& module, const std::vector<int64_t>& shape) {
  const TemporaryFolder folder;
  const auto run_module = [](const torch::jit::Module& from, const Tensor& x) {
    torch::jit::Module own = from;
    return own.forward({x}).toTensor().detach();
  };
  std::vector<int64_t> any = shape;
  any[0] = kUnknown;
  const auto f = [&](const Tensor& x) { return run_module(module, x); };
  std::map<std::string, Tensor> variables;
  for (const auto& parameter : module.named_parameters()) variables.emplace(parameter.name, parameter.value);
  save(folder / "model", {.signatures = {{"f", Signature(f, {.inputs = {TensorSpec({.name = "x", .shape = any})}})}},
                          .variables = variables,
                          .onnx = OnnxOptions{}});
  const SavedModel loaded = load(folder / "model");
  EXPECT_TRUE(loaded.variables().contains("weight"));
  const torch::jit::Module again = torch::jit::load(folder / "model" / "f.pt");
  for (const int64_t batch : {1, 5}) {
    std::vector<int64_t> sizes = shape;
    sizes[0] = batch;
    const Tensor x = at::randn(sizes), expected = f(x);
    EXPECT_TRUE(same_bits(loaded.signature("f")(x).at("output_0"), expected)) << batch;
    EXPECT_TRUE(same_bits(run_module(again, x), expected)) << batch;
  }
}

TEST(TracedModels, OfConvolutionsAreSavedAgain) {
  const std::map<std::string, Tensor> parameters = {
      {"weight", at::randn({4, 3, 3, 3})}, {"bias", at::randn({4})}, {"out", at::randn({5, 64})}};
  expect_saves(traced(R"(
def forward(self, x):
  y = torch._convolution(x, self.weight, self.bias, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True)
  y = torch.max_pool2d(torch.relu_(y), [2, 2], [2, 2], [0, 0], [1, 1], False)
  return torch.linear(torch.flatten(y, 1), self.out, None)
)",
                      parameters),
               {2, 3, 8, 8});
}

// A trace wraps each size that Python asks for in a tensor, and takes it out again.
void wrap_sizes(torch::jit::Graph& graph) {
  for (torch::jit::Node* const node : graph.nodes()) {
    if (node->kind() != at::aten::size) continue;
    const torch::jit::WithInsertPoint after(node->next());
    torch::jit::Value* const wrapped = graph.insert(at::prim::NumToTensor, {node->output()});
    torch::jit::Value* const number = graph.insert(at::aten::Int, {wrapped});
    node->output()->replaceAllUsesAfterNodeWith(number->node(), number);
  }
}

TEST(TracedModels, MayReadSizes) {
  torch::jit::Module module = traced(R"(
def forward(self, x):
  rows = x.size(0)
  y = torch.linear(x.view([rows, -1]), self.weight, None)
  return y.view([rows * 2, 2])
)",
                                     {{"weight", at::randn({4, 12})}});
  wrap_sizes(*module.get_method("forward").graph());
  expect_saves(module, {2, 3, 4});
}

// Before PyTorch 1.7 without the last flag.
TEST(TracedModels, OfTransposedConvolutionsOfOldFilesAreSavedAgain) {
  expect_saves(traced(R"(
def forward(self, x):
  return torch._convolution(x, self.weight, None, [2], [1], [1], True, [1], 1, False, False, True)
)",
                      {{"weight", at::randn({3, 2, 3})}}),
               {2, 3, 7});
}

}  // namespace
}  // namespace tutti::saved_model
