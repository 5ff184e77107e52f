// Functions are recorded of tensors on the CPU; on a GPU they are refused by name, and run as they are where a program
// asks for that.
#include "gpu_test.h"

namespace tutti::gpu {
namespace {

class Functions : public GpuTest {
 protected:
  ~Functions() override { run_functions_eagerly(false); }
};

TEST_F(Functions, AreNotRecordedOnAGpuAndSaySo) {
  const auto f = function([](const Tensor& x) { return x * 2 + 1; });
  const Tensor x = torch::ones({3}, on_gpu());
  try {
    f(x);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unimplemented);
    EXPECT_THAT(error.what(), testing::HasSubstr("run_functions_eagerly(true)"));
  }
  run_functions_eagerly(true);
  expect_bits(f(x), torch::full({3}, 3.0), "the result");
}

TEST_F(Functions, TrainOnReplicasAsPlainStepsDoWhereTheyRunEagerly) {
  run_functions_eagerly(true);
  const auto losses = [](bool in_function) {
    MirroredStrategy strategy({.devices = parts(2)});
    torch::manual_seed(7);
    auto net = strategy.build([] { return torch::nn::Linear(10, 3); });
    torch::optim::SGD optimizer(net->parameters(), 0.1);
    const auto step = [&](const PerReplica<std::tuple<Tensor, Tensor>>& batch) {
      optimizer.zero_grad();
      const auto each = strategy.run(
          [&](const Tensor& x, const Tensor& y) {
            const Tensor loss = torch::cross_entropy_loss(net->forward(x), y);
            loss.backward();
            return loss.detach();
          },
          batch);
      optimizer.step();
      return strategy.reduce(ReduceOp::mean, each);
    };
    const auto f = function(step);
    std::vector<double> all;
    torch::manual_seed(11);
    for (int i = 0; i < 4; ++i) {
      const auto batch = strategy.distribute(std::tuple(torch::randn({8, 10}), torch::randint(3, {8}, torch::kLong)));
      all.push_back((in_function ? f(batch) : step(batch)).template item<double>());
    }
    return all;
  };
  EXPECT_EQ(losses(true), losses(false));
}

}  // namespace
}  // namespace tutti::gpu
