// Every module in global view against one device on the whole batch: outputs, gradients, weights and buffers after
// three steps; merged and separate buffers; 1 to 4 devices; replicated and batch-sharded input.
#include <gtest/gtest.h>

#include "module_cases.h"
#include "tests/support/test_devices.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/scope.h"

namespace tutti::equivalence {
namespace {

struct Setup {
  int devices;
  bool merge;
  bool sharded;
};

struct GlobalParameters {
  ModuleCase module;
  Setup setup;
};

void PrintTo(const GlobalParameters& parameters, std::ostream* out) { *out << parameters.module.name; }

std::vector<GlobalParameters> all_global_parameters() {
  std::vector<GlobalParameters> all;
  for (const ModuleCase& module : module_cases())
    for (const int devices : {1, 2, 3, 4})
      for (const bool merge : {true, false})
        for (const bool sharded : {false, true}) all.push_back({module, {devices, merge, sharded}});
  return all;
}

std::string global_name_of(const testing::TestParamInfo<GlobalParameters>& info) {
  const auto& [module, setup] = info.param;
  return module.name + "_" + std::to_string(setup.devices) + (setup.merge ? "_merged" : "_separate") +
         (setup.sharded ? "_sharded" : "_replicated");
}

void expect_globally_close(const Tensor& actual, const Tensor& expected, const std::string& what) {
  const Tensor value = gather(actual.detach());
  ASSERT_EQ(value.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(torch::allclose(value, expected.detach(), 1e-9, 1e-10))
      << what << " differs by " << (value - expected.detach()).abs().max().item<double>();
}

// Loss with a different weight for each element of the output, so that no two errors cancel.
Tensor global_loss_of(const Tensor& output) {
  const Tensor weights = torch::linspace(0.5, 1.5, output.numel()).view(output.sizes());
  return (output * (is_mesh_tensor(output)
                        ? relayout(distribute_tensor(weights, Layout::replicated(layout_of(output).mesh(),
                                                                                 static_cast<int>(output.dim()))),
                                   layout_of(output))
                        : weights))
      .sum();
}

class GlobalView : public testing::TestWithParam<GlobalParameters> {
 protected:
  void SetUp() override { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  void TearDown() override { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }
};

TEST_P(GlobalView, EqualsOneDevice) {
  const auto& [module, setup] = GetParam();
  const Mesh mesh({{"batch", setup.devices}}, test_devices(setup.devices), {.merge = setup.merge});
  torch::manual_seed(7);
  Built plain = module.make();
  torch::manual_seed(7);
  Built meshed = [&] {
    const Scope scope(mesh, std::make_shared<GradientGroup>(ReduceOp::sum));
    return module.make();
  }();
  torch::optim::SGD plain_optimizer(plain.module->parameters(), 0.05), optimizer(meshed.module->parameters(), 0.05);

  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(100 + step);
    const Tensor x = module.inputs()[0];
    std::vector<std::string> axes(static_cast<size_t>(x.dim()), kUnsharded);
    if (setup.sharded) axes[static_cast<size_t>(module.batch_axis)] = "batch";
    const Tensor mesh_x = distribute_tensor(x, Layout(axes, mesh));
    plain_optimizer.zero_grad();
    optimizer.zero_grad();

    torch::manual_seed(step);
    const Tensor expected = plain.forward({x});
    global_loss_of(expected).backward();
    torch::manual_seed(step);
    const Tensor output = meshed.forward({mesh_x});
    ASSERT_TRUE(is_mesh_tensor(output));
    global_loss_of(output).backward();

    expect_globally_close(output, expected, "output");
    const auto parameters = meshed.module->parameters(), wanted = plain.module->parameters();
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(parameters[i].grad().defined(), wanted[i].grad().defined());
      if (wanted[i].grad().defined())
        expect_globally_close(parameters[i].grad(), wanted[i].grad(), "gradient " + std::to_string(i));
    }
    plain_optimizer.step();
    optimizer.step();
    for (size_t i = 0; i < wanted.size(); ++i)
      expect_globally_close(parameters[i], wanted[i], "weight " + std::to_string(i));
    const auto buffers = meshed.module->buffers(), wanted_buffers = plain.module->buffers();
    for (size_t i = 0; i < wanted_buffers.size(); ++i)
      expect_globally_close(buffers[i].to(torch::kDouble), wanted_buffers[i].to(torch::kDouble),
                            "buffer " + std::to_string(i));
  }
}

// Of embeddings, added up over two passes in each step.
TEST(GlobalViewOfEmbeddings, HasSparseGradients) {
  if (!test_devices_are_cpus() && !test_torch_device().is_cuda())
    GTEST_SKIP() << "simulated GPUs copy no sparse tensors";
  const Tensor first = torch::linspace(-1, 1, 10).view({5, 2}), ids = moved(torch::tensor({0, 1, 2, 1, 0, 4}));
  for (const bool merge : {true, false})
    for (const bool sharded : {true, false}) {
      const Mesh mesh({{"x", 3}}, test_devices(3), {.merge = merge});
      const auto placed = [&](const Tensor& tensor, const std::vector<std::string>& axes) {
        return distribute_tensor(tensor, Layout(axes, mesh));
      };
      const Tensor plain = first.clone().requires_grad_();
      const Tensor table = placed(first, {kUnsharded, kUnsharded}).requires_grad_();
      const Tensor mesh_ids = placed(ids, {sharded ? "x" : kUnsharded});
      const auto train = [](const Tensor& weights, const Tensor& rows) {
        torch::optim::SGD sgd({weights}, torch::optim::SGDOptions(0.1).momentum(0.5));
        for (int step = 0; step < 3; ++step) {
          sgd.zero_grad();
          for (int pass = 0; pass < 2; ++pass)
            torch::embedding(weights, rows, -1, false, /*sparse=*/true).square().sum().backward();
          sgd.step();
        }
      };
      train(plain, ids);
      train(table, mesh_ids);
      EXPECT_TRUE(torch::allclose(gather(table.detach()), plain.detach())) << merge << sharded;
    }
}

INSTANTIATE_TEST_SUITE_P(Modules, GlobalView, testing::ValuesIn(all_global_parameters()), global_name_of);

}  // namespace
}  // namespace tutti::equivalence
