// Layouts over the devices of several processes: see multi_worker_test.cpp.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "tests/processes/of_processes.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/checkpoint.h"
#include "tutti/checkpoint/checkpoint_manager.h"
#include "tutti/checkpoint/weights.h"
#include "tutti/dtensor/create_distributed_mesh.h"
#include "tutti/dtensor/layout_map.h"
#include "tutti/dtensor/relayout.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

class DistributedMesh : public OfProcesses {
 protected:
  Mesh mesh_of(std::vector<MeshDimension> dimensions, bool merge = true) const {
    return dtensor::create_distributed_mesh(std::move(dimensions), {.local_devices = configure_logical_cpus(kDevices),
                                                                    .mesh = {.merge = merge},
                                                                    .communication_options = kCommunication});
  }
  Tensor numbers(at::IntArrayRef sizes) const {
    return at::arange(c10::multiply_integers(sizes), at::kDouble).view(sizes);
  }
};

// A folder that all processes see, until none needs it any more.
class ChiefsFolder {
 public:
  explicit ChiefsFolder(std::shared_ptr<Processes> processes)
      : processes_(std::move(processes)),
        path_(on_chief(processes_, "make a folder", [&] { return of_chief_.path().string(); })) {}
  ~ChiefsFolder() { processes_->sum(0, "nobody needs the folder"); }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::shared_ptr<Processes> processes_;
  const TemporaryFolder of_chief_;
  const std::filesystem::path path_;
};

TEST_F(DistributedMesh, HoldsInEachProcessThePartOnItsDevices) {
  const Mesh mesh = mesh_of({{"x", -1}}, false);
  EXPECT_EQ(mesh.num_devices(), kDevices * size());
  const Tensor value = numbers({12, 2});
  const Tensor tensor = distribute_tensor(value, Layout({"x", kUnsharded}, mesh));
  int here = 0;
  for (const Tensor& component : mesh_impl(tensor).components()) here += component.defined();
  EXPECT_EQ(here, kDevices);
  EXPECT_EQ(tensor.sum().item<double>(), value.sum().item<double>());
  EXPECT_TRUE(at::equal(gather(tensor), value));
  const Tensor columns = dtensor::relayout(tensor, Layout({kUnsharded, "x"}, mesh));
  EXPECT_TRUE(at::equal(gather(columns), value));
}

TEST_F(DistributedMesh, TrainsAModuleAsOneDeviceDoes) {
  for (const bool merge : {true, false}) {
    const Mesh mesh = mesh_of({{"batch", size()}, {"model", kDevices}}, merge);
    torch::manual_seed(3);
    torch::nn::Linear up(6, 8), down(8, 3), whole_up(6, 8), whole_down(8, 3);
    const auto copy = [&](torch::nn::Linear& from, torch::nn::Linear& to, const Layout& weight, const Layout& bias) {
      to->weight = distribute_tensor(from->weight.detach(), weight).requires_grad_();
      to->bias = distribute_tensor(from->bias.detach(), bias).requires_grad_();
    };
    copy(whole_up, up, Layout({"model", kUnsharded}, mesh), Layout({"model"}, mesh));
    copy(whole_down, down, Layout({kUnsharded, "model"}, mesh), Layout::replicated(mesh, 1));
    torch::optim::SGD one({whole_up->weight, whole_up->bias, whole_down->weight, whole_down->bias}, 0.1);
    torch::optim::SGD all({up->weight, up->bias, down->weight, down->bias}, 0.1);
    for (int step = 0; step < 5; ++step) {
      const Tensor x = (numbers({10, 6}) * (step + 1)).sin().to(at::kFloat);
      const auto train = [&](torch::optim::SGD& optimizer, auto& first, auto& second, const Tensor& input) {
        optimizer.zero_grad();
        const Tensor loss = second->forward(first->forward(input).relu()).square().mean();
        loss.backward();
        optimizer.step();
        return loss.template item<double>();
      };
      const double expected = train(one, whole_up, whole_down, x);
      EXPECT_NEAR(train(all, up, down, distribute_tensor(x, Layout({"batch", kUnsharded}, mesh))), expected, 1e-6);
    }
    EXPECT_TRUE(at::allclose(gather(up->weight.detach()), whole_up->weight, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(gather(down->bias.detach()), whole_down->bias, 1e-5, 1e-6));
  }
}

TEST_F(DistributedMesh, MakesAModuleAndDropsOutAsOneDeviceDoes) {
  for (const bool merge : {true, false}) {
    const Mesh mesh = mesh_of({{"batch", size()}, {"model", kDevices}}, merge);
    const dtensor::LayoutMap map(mesh, {{"weight", {"model", kUnsharded}}, {"bias", {"model"}}});
    const auto make = [] { return torch::nn::Linear(6, 8); };
    const auto train = [](torch::nn::Linear& net, const Tensor& input) {
      const Tensor loss = at::dropout(net->forward(input), 0.5, true).square().mean();
      loss.backward();
      return loss.item<double>();
    };
    torch::manual_seed(3);
    torch::nn::Linear whole = make();
    const Tensor x = numbers({10, 6}).sin().to(at::kFloat);
    const double expected = train(whole, x);
    const Tensor next = at::rand({4});
    torch::manual_seed(3);
    torch::nn::Linear net = map.build(make);
    EXPECT_TRUE(at::equal(gather(net->weight.detach()), whole->weight));
    EXPECT_TRUE(at::equal(gather(net->bias.detach()), whole->bias));
    EXPECT_NEAR(train(net, distribute_tensor(x, Layout({"batch", kUnsharded}, mesh))), expected, 1e-6);
    EXPECT_TRUE(at::allclose(gather(net->weight.grad()), whole->weight.grad(), 1e-5, 1e-7));
    EXPECT_TRUE(at::equal(at::rand({4}), next));
  }
}

TEST_F(DistributedMesh, DrawsNothingWhereGeneratorsAreNotInStep) {
  const Mesh mesh = mesh_of({{"x", -1}});
  const Tensor tensor = distribute_tensor(numbers({12, 2}), Layout({"x", kUnsharded}, mesh));
  torch::manual_seed(rank() == 1 ? 4 : 3);
  const std::string error = error_of([&] { at::dropout(tensor, 0.5, true); });
  EXPECT_THAT(error, HasSubstr("the default generator of process 1 is not where that of process 0 is"));
  const LayoutScope scope(mesh);
  EXPECT_EQ(error_of([&] { at::rand({3}); }).substr(0, 22), "failed_precondition: a");
  set_random_seed(3);
  EXPECT_EQ(error_of([&] { at::rand({3}); }), "no error");
}

TEST_F(DistributedMesh, NeedsAFirstDimensionThatDividesAmongTheProcesses) {
  EXPECT_EQ(error_of([&] { mesh_of({{"x", 1}, {"y", -1}}); }), "no error");
  if (size() == 2) return;
  EXPECT_THAT(error_of([&] { mesh_of({{"x", 2}, {"y", -1}}); }), HasSubstr("no multiple of the"));
}

TEST_F(DistributedMesh, IsSavedByAllProcessesAndRestoredInAnyLayout) {
  const ChiefsFolder folder(strategy.processes());
  for (const bool merge : {true, false}) {
    const Mesh mesh = mesh_of({{"x", -1}}, merge);
    const Layout rows({"x", kUnsharded}, mesh), columns({kUnsharded, "x"}, mesh), whole = Layout::replicated(mesh, 2);
    for (const int64_t length : {13, 1, 0}) {
      const Tensor value = numbers({length, 7});
      const Tensor saved = distribute_tensor(value, rows), sum = saved.t().matmul(saved);
      const Checkpoint checkpoint({{"value", saved}, {"sum", sum}, {"whole", distribute_tensor(value, whole)}});
      const auto path = folder.path() / str(merge, length);
      checkpoint.write(path);
      for (const Layout& layout : {rows, columns, whole}) {
        Tensor again = distribute_tensor(at::full_like(value, -1), layout);
        Checkpoint({{"value", again}}).restore(path).expect_partial();
        EXPECT_TRUE(at::equal(gather(again), value)) << layout.to_string();
      }
      const Tensor plain = at::full_like(value, -1), product = at::full({7, 7}, -1, value.options());
      Checkpoint({{"value", plain}, {"sum", product}}).restore(path).expect_partial();  // on one device
      EXPECT_TRUE(at::equal(plain, value));
      EXPECT_TRUE(at::equal(product, gather(sum)));
    }
  }
}

TEST_F(DistributedMesh, GoesOnFromWeightsAndMomentsThatWereSaved) {
  const ChiefsFolder folder(strategy.processes());
  struct Net : torch::nn::Module {
    Net(const Tensor& value, const Mesh& mesh)
        : weight(register_parameter("weight", distribute_tensor(value, Layout({"x", kUnsharded}, mesh)))) {}
    const Tensor weight;
  };
  const Mesh mesh = mesh_of({{"x", -1}});
  const auto step = [](const Net& net, torch::optim::SGD& optimizer) {
    optimizer.zero_grad();
    net.weight.square().sum().backward();
    optimizer.step();
  };
  Net net(numbers({9, 2}), mesh), other(numbers({9, 2}) * 0, mesh);
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD others(other.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  step(net, optimizer);
  Checkpoint({{"net", net}, {"optimizer", optimizer}}).write(folder.path() / "step");
  step(net, optimizer);
  step(other, others);
  Checkpoint({{"net", other}, {"optimizer", others}}).restore(folder.path() / "step").assert_consumed();
  step(other, others);
  EXPECT_TRUE(at::equal(gather(net.weight.detach()), gather(other.weight.detach())));

  save_weights(net, folder.path() / "net.safetensors");
  step(other, others);
  load_weights(other, folder.path() / "net.safetensors").assert_consumed();
  EXPECT_TRUE(at::equal(gather(net.weight.detach()), gather(other.weight.detach())));
}

TEST_F(DistributedMesh, IsNotSavedByOneProcessBesideTheTraining) {
  const ChiefsFolder folder(strategy.processes());
  const Mesh mesh = mesh_of({{"x", -1}});
  const Checkpoint checkpoint({{"value", distribute_tensor(numbers({8, 2}), Layout({"x", kUnsharded}, mesh))}});
  CheckpointManager manager(checkpoint, folder.path() / "of_async", {.async = true});
  EXPECT_THAT(error_of([&] { manager.save(); }), HasSubstr("a CheckpointManager that is not `async`"));
}

}  // namespace
}  // namespace tutti
