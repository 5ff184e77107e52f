// Meshes of logical parts of one GPU: layouts, their gradients and random numbers, held to plain tensors on that GPU.
#include "gpu_test.h"

namespace tutti::gpu {
namespace {

class DTensor : public GpuTest, public testing::WithParamInterface<bool> {
 protected:
  Mesh mesh() const { return Mesh({{"x", 2}, {"y", 2}}, parts(4), {.merge = GetParam()}); }
};

TEST_P(DTensor, MovesBetweenAllLayoutsAndBack) {
  const Mesh mesh = this->mesh();
  const Tensor value = torch::arange(7 * 5, on_gpu().dtype(torch::kFloat)).view({7, 5});
  const std::vector<std::vector<std::string>> all = {{kUnsharded, kUnsharded}, {"x", kUnsharded}, {"y", kUnsharded},
                                                     {kUnsharded, "x"},        {"x", "y"},        {"y", "x"}};
  for (const auto& from : all)
    for (const auto& to : all) {
      const Tensor cut = dtensor::shard(value, Layout(from, mesh));
      EXPECT_TRUE(is_gpu(cut.device()));
      expect_bits(dtensor::relayout(cut, Layout(to, mesh)), value, "the value");
    }
}

TEST_P(DTensor, ProductsAndTheirGradientsAreThoseOfOneDevice) {
  const Mesh mesh = this->mesh();
  torch::manual_seed(1);
  const Tensor a = torch::randn({8, 6}, on_gpu().dtype(torch::kDouble)), b = torch::randn({6, 4}, a.options());
  const auto gradients_of = [](const Tensor& left, const Tensor& right) {
    const Tensor x = left.detach().requires_grad_(), y = right.detach().requires_grad_();
    const Tensor loss = torch::softmax(x.mm(y), 1).pow(2).sum();
    loss.backward();
    return std::vector<Tensor>{loss.detach(), x.grad(), y.grad()};
  };
  const auto wanted = gradients_of(a, b);
  for (const auto& [left, right] : std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>>{
           {{"x", kUnsharded}, {kUnsharded, "y"}},
           {{kUnsharded, "x"}, {"x", kUnsharded}},
           {{"x", "y"}, {"y", kUnsharded}}}) {
    const auto seen = gradients_of(dtensor::shard(a, Layout(left, mesh)), dtensor::shard(b, Layout(right, mesh)));
    for (size_t i = 0; i < wanted.size(); ++i) expect_near(seen[i], wanted[i], 1e-12, str("result ", i));
  }
}

TEST_P(DTensor, ModelsTrainAsOnOneDevice) {
  const Mesh mesh = this->mesh();
  const auto losses_of = [](const std::shared_ptr<torch::nn::SequentialImpl>& net, const Tensor& x, const Tensor& y) {
    torch::optim::AdamW optimizer(net->parameters(), 1e-2);
    std::vector<double> losses;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      const Tensor loss = torch::cross_entropy_loss(net->forward(x), y);
      loss.backward();
      torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    return losses;
  };
  const auto make = [] {
    torch::manual_seed(4);
    return std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(12, 16),
                                                       torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})),
                                                       torch::nn::GELU(), torch::nn::Linear(16, 4));
  };
  torch::manual_seed(9);
  const Tensor x = torch::randn({8, 12}, on_gpu()), y = torch::randint(4, {8}, on_gpu().dtype(torch::kLong));
  auto plain = make();
  plain->to(device_of_plain());
  const auto wanted = losses_of(plain, x.to(device_of_plain()), y.to(device_of_plain()));
  const auto model =
      dtensor::LayoutMap(mesh, {{"0.weight", {"y", kUnsharded}}, {"0.bias", {"y"}}, {"3.weight", {kUnsharded, "y"}}})
          .build(make);
  const auto seen =
      losses_of(model, dtensor::shard(x, Layout({"x", kUnsharded}, mesh)), dtensor::shard(y, Layout({"x"}, mesh)));
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(seen[i], wanted[i], 1e-5) << "step " << i;
}

TEST_P(DTensor, DrawsTheNumbersOfOneDevice) {
  const Mesh mesh = this->mesh();
  torch::manual_seed(21);
  const Tensor wanted = torch::rand({6, 4}, on_gpu()),
               wanted_mask = torch::dropout(torch::ones({6, 4}, on_gpu()), 0.5, true);
  torch::manual_seed(21);
  const Tensor seen = torch::rand_like(dtensor::shard(torch::zeros({6, 4}, on_gpu()), Layout({"x", "y"}, mesh)));
  expect_bits(seen, wanted, "rand_like");
  const Tensor mask =
      torch::dropout(dtensor::shard(torch::ones({6, 4}, on_gpu()), Layout({"x", kUnsharded}, mesh)), 0.5, true);
  EXPECT_EQ(on_host(mask).count_nonzero().item<int64_t>(), wanted_mask.count_nonzero().item<int64_t>());
}

// Ops for which LibTorch has other kernels on a GPU.
TEST_P(DTensor, NormalizesAndActivatesAsOneDevice) {
  const Mesh mesh = this->mesh();
  torch::manual_seed(1);
  const Tensor x = torch::randn({6, 4, 5, 3}, on_gpu());
  const auto run = [](const Tensor& images, const Tensor& weight, const Tensor& mean, const Tensor& variance) {
    const Tensor in = images.detach().requires_grad_(), scale = weight.detach().requires_grad_();
    std::vector<Tensor> results;
    for (const bool training : {true, false}) {
      const Tensor normal = torch::batch_norm(in, scale, Tensor(), mean, variance, training, 0.1, 1e-5, /*cudnn=*/true);
      results.push_back(torch::log_sigmoid(normal));
      results.back().square().sum().backward();
    }
    results.insert(results.end(), {in.grad(), scale.grad(), mean, variance});
    return results;
  };
  const auto statistics = [] { return std::pair(torch::zeros({4}, on_gpu()), torch::ones({4}, on_gpu())); };
  const Tensor weight = torch::rand({4}, on_gpu());
  const auto [mean, variance] = statistics();
  const auto wanted = run(x, weight, mean, variance);
  for (const std::vector<std::string>& layout :
       std::vector<std::vector<std::string>>{{"x", kUnsharded, "y", kUnsharded},
                                             {"y", "x", kUnsharded, kUnsharded},
                                             {kUnsharded, kUnsharded, kUnsharded, "x"}}) {
    SCOPED_TRACE(str_list(layout));
    const auto whole = [&](const Tensor& value) { return dtensor::shard(value, Layout({kUnsharded}, mesh)); };
    const auto [own_mean, own_variance] = statistics();
    const auto seen = run(dtensor::shard(x, Layout(layout, mesh)), whole(weight), whole(own_mean), whole(own_variance));
    for (size_t i = 0; i < wanted.size(); ++i) expect_near(seen[i], wanted[i], 1e-4, str("result ", i));
  }
}

TEST_P(DTensor, ViewsReadAndWriteTheWhole) {
  const Mesh mesh = this->mesh();
  Tensor plain = torch::arange(24, on_gpu().dtype(torch::kFloat)).view({6, 4});
  Tensor cut = dtensor::shard(plain, Layout({"x", "y"}, mesh));
  plain = plain.clone();
  for (Tensor* each : {&plain, &cut}) {
    (*each)[3].mul_(2);
    each->t()[1].add_(each->select(0, 5)[1]);
    each->narrow(0, 1, 4).transpose(0, 1).diagonal().fill_(7);
  }
  expect_bits(cut, plain, "the value");
}

INSTANTIATE_TEST_SUITE_P(Buffers, DTensor, testing::Bool(),
                         [](const auto& info) { return info.param ? "Merged" : "Separate"; });

}  // namespace
}  // namespace tutti::gpu
