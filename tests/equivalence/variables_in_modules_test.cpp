// Variables that a module registers: what a program does with the module.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "tests/support/test_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::equivalence {
namespace {

// Scales its input by a parameter, and counts the samples that all replicas saw.
struct CountingImpl : torch::nn::Module {
  Variable scale = variable(torch::ones({2}), {.name = "scale"});
  Variable seen = variable(
      torch::zeros({}),
      {.name = "seen", .aggregation = VariableAggregation::sum, .synchronization = VariableSynchronization::on_read});
  CountingImpl() {
    register_parameter("scale", scale);
    register_buffer("seen", seen);
  }
  Tensor forward(const Tensor& x) const {
    seen.assign_add(x.size(0));
    return x * scale;
  }
};
TORCH_MODULE(Counting);

Counting built(MirroredStrategy& strategy) {
  return strategy.build([] { return Counting(); });
}

class VariablesInModules : public testing::Test {
 protected:
  MirroredStrategy three_{{.devices = test_devices(3)}};

  // One step of SGD on six samples.
  Counting trained() {
    Counting module = built(three_);
    torch::optim::SGD optimizer(module->parameters(), 0.5);
    three_.run([&](const Tensor& x) { module->forward(x).sum().backward(); }, three_.distribute(torch::ones({6, 2})));
    optimizer.step();
    return module;
  }
  static void expect_trained(const Counting& module) {
    EXPECT_TRUE(torch::equal(module->scale.value(), torch::full({2}, -2.0)));
    EXPECT_EQ(module->seen.value().item<float>(), 6);
  }
};

TEST_F(VariablesInModules, TrainAndCount) {
  const Counting module = trained();
  expect_trained(module);
  EXPECT_EQ(module->seen.components()[1].item<float>(), 2);
}

TEST_F(VariablesInModules, AreSavedAndLoadedUnderAnyNumberOfReplicas) {
  std::stringstream file;
  torch::save(trained(), file);
  const std::string bytes = file.str();
  for (const size_t replicas : {0, 1, 2}) {
    std::optional<MirroredStrategy> other;
    if (replicas > 0) other.emplace(MirroredStrategyOptions{.devices = test_devices(replicas)});
    Counting loaded = other ? built(*other) : Counting();
    std::stringstream copy(bytes);
    torch::load(loaded, copy);
    expect_trained(loaded);
    if (!other) continue;
    other->run([&] { loaded->seen.assign_add(1); });
    EXPECT_EQ(loaded->seen.value().item<float>(), 6 + other->num_replicas_in_sync());
  }
}

TEST_F(VariablesInModules, ConvertToAnotherDtypeInPlace) {
  Counting module = trained();
  module->to(torch::kDouble);
  EXPECT_EQ(module->scale.dtype(), torch::kDouble);
  EXPECT_EQ(module->seen.value().item<double>(), 6);
  three_.run([&](const Tensor& x) { module->forward(x).sum().backward(); },
             three_.distribute(torch::ones({6, 2}, torch::kDouble)));
  EXPECT_EQ(module->seen.value().item<double>(), 12);
}

TEST_F(VariablesInModules, PrintWithoutAmbiguity) {
  std::stringstream out;
  out << trained()->seen << '\n' << variable(torch::ones({})) << '\n' << torch::ones({});
  EXPECT_NE(out.str().find("SyncOnReadVariable 'seen':{\n  0: /device:CPU:0\n    2"), std::string::npos);
}

}  // namespace
}  // namespace tutti::equivalence
