// Every module in replica view against a plain copy of it for each replica, whose gradients are summed and whose
// buffers are averaged: outputs, gradients, weights and buffers after three steps, on 1 to 4 devices.
#include <gtest/gtest.h>

#include "module_cases.h"
#include "tests/support/test_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tensor/view.h"

namespace tutti::equivalence {
namespace {

struct ReplicaParameters {
  ModuleCase module;
  int devices;
};

void PrintTo(const ReplicaParameters& parameters, std::ostream* out) { *out << parameters.module.name; }

std::vector<ReplicaParameters> all_replica_parameters() {
  std::vector<ReplicaParameters> all;
  for (const ModuleCase& module : module_cases())
    for (const int devices : {1, 2, 3, 4}) all.push_back({module, devices});
  return all;
}

std::string replica_name_of(const testing::TestParamInfo<ReplicaParameters>& info) {
  return info.param.module.name + "_" + std::to_string(info.param.devices);
}

void expect_close(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(torch::allclose(actual.detach(), expected.detach(), 1e-9, 1e-10))
      << what << " differs by " << (actual - expected).abs().max().item<double>();
}

Tensor loss_of(const Tensor& output) {
  return (output * torch::linspace(0.5, 1.5, output.numel()).view(output.sizes())).sum();
}

class ReplicaView : public testing::TestWithParam<ReplicaParameters> {
 protected:
  void SetUp() override { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  void TearDown() override { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }
};

// The same module once for each replica, as a program without Tutti would hold it.
struct PlainReplicas {
  std::vector<Built> copies;
  std::vector<at::Generator> generators;

  PlainReplicas(const ModuleCase& module, int devices) {
    for (int r = 0; r < devices; ++r) {
      torch::manual_seed(7);
      copies.push_back(module.make());
      generators.push_back(make_replica_generator(7, r, at::kCPU));
    }
  }

  std::vector<Tensor> forward_backward(const std::vector<Tensor>& shards) {
    std::vector<Tensor> outputs;
    for (size_t r = 0; r < copies.size(); ++r) {
      copies[r].module->zero_grad();
      const ThreadViewGuard draw(
          {.replica = static_cast<int>(r), .generator = copies.size() > 1 ? &generators[r] : nullptr});
      outputs.push_back(copies[r].forward({shards[r]}));
      loss_of(outputs.back()).backward();
    }
    return outputs;
  }

  Tensor gradient(size_t parameter) const {
    Tensor sum;
    for (const Built& copy : copies) {
      const Tensor gradient = copy.module->parameters()[parameter].grad();
      if (gradient.defined()) sum = sum.defined() ? sum + gradient : gradient.clone();
    }
    return sum;
  }

  void step(double learning_rate) {
    const torch::NoGradGuard no_grad;
    const size_t count = copies[0].module->parameters().size();
    for (size_t i = 0; i < count; ++i)
      if (const Tensor sum = gradient(i); sum.defined())
        for (Built& copy : copies) copy.module->parameters()[i].sub_(sum, learning_rate);
  }
};

TEST_P(ReplicaView, EqualsPlainCopiesWithSummedGradients) {
  const auto& [module, devices] = GetParam();
  torch::manual_seed(7);
  MirroredStrategy strategy({.devices = test_devices(devices)});
  const Built built = strategy.build([&] { return module.make(); });
  torch::optim::SGD optimizer(built.module->parameters(), 0.05);
  PlainReplicas plain(module, devices);
  torch::manual_seed(7);

  for (int step = 0; step < 3; ++step) {
    auto inputs = torch::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(step));
    std::vector<Tensor> shards;
    {
      const ThreadViewGuard draw({.generator = &inputs});  // leaves the default generator to the modules
      for (int r = 0; r < devices; ++r) shards.push_back(module.inputs()[0]);
    }
    if (devices == 1) torch::manual_seed(70 + static_cast<uint64_t>(step));
    const auto expected = plain.forward_backward(shards);
    if (devices == 1) torch::manual_seed(70 + static_cast<uint64_t>(step));
    optimizer.zero_grad();
    const auto outputs = strategy.run(
        [&](const Tensor& x) {
          const Tensor output = built.forward({x});
          loss_of(output).backward();
          return output.detach();
        },
        PerReplica<Tensor>(shards));
    for (size_t r = 0; r < shards.size(); ++r) expect_close(outputs[r], expected[r], "output " + std::to_string(r));
    const auto parameters = built.module->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor wanted = plain.gradient(i);
      ASSERT_EQ(parameters[i].grad().defined(), wanted.defined());
      if (wanted.defined()) expect_close(gather(parameters[i].grad()), wanted, "gradient " + std::to_string(i));
    }
    plain.step(0.05);
    optimizer.step();
    for (size_t i = 0; i < parameters.size(); ++i)
      expect_close(gather(parameters[i].detach()), plain.copies[0].module->parameters()[i],
                   "weight " + std::to_string(i));
    const auto buffers = built.module->buffers();
    for (size_t i = 0; i < buffers.size(); ++i) {
      std::vector<Tensor> values;
      for (const Built& copy : plain.copies) values.push_back(copy.module->buffers()[i]);
      const Tensor wanted = values[0].is_floating_point() ? torch::stack(values).mean(0) : values[0];
      expect_close(gather(buffers[i]), wanted, "buffer " + std::to_string(i));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modules, ReplicaView, testing::ValuesIn(all_replica_parameters()), replica_name_of);

}  // namespace
}  // namespace tutti::equivalence
