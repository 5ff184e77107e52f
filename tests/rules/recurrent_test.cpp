// LSTM, GRU and RNN whose batch is sharded give one device's numbers, and gather nothing.
#include "like_one_device.h"
#include "tutti/tensor/strict_mode.h"

namespace tutti::rules {
namespace {

using torch::Tensor;

constexpr int64_t kRows = 6, kSteps = 4, kFeatures = 3, kHidden = 5, kLayers = 2;

struct Network {
  std::vector<Tensor> weights;
  Tensor state, cell;

  // Of two layers in both directions, with `gates` rows of weights for each hidden element.
  Network(int64_t gates, const TensorFunction& place) {
    torch::manual_seed(1);
    const auto leaf = [&](at::IntArrayRef sizes) { return place(torch::randn(sizes) / 2).requires_grad_(); };
    for (int64_t layer = 0; layer < kLayers; ++layer)
      for (int direction = 0; direction < 2; ++direction) {
        weights.push_back(leaf({gates * kHidden, layer == 0 ? kFeatures : 2 * kHidden}));
        weights.push_back(leaf({gates * kHidden, kHidden}));
        weights.push_back(leaf({gates * kHidden}));
        weights.push_back(leaf({gates * kHidden}));
      }
    state = leaf({2 * kLayers, kRows, kHidden});
    cell = leaf({2 * kLayers, kRows, kHidden});
  }
};

using Run = std::function<std::vector<Tensor>(const Network&, const Tensor& x)>;

// The results and all gradients, in one row.
Tensor trained(int64_t gates, const Run& run, const Tensor& x, const TensorFunction& place) {
  const Network net(gates, place);
  const Tensor input = x.detach().requires_grad_();
  std::vector<Tensor> all = run(net, input);
  Tensor loss;
  for (const Tensor& result : all) loss = loss.defined() ? loss + result.square().sum() : result.square().sum();
  loss.backward();
  for (const std::vector<Tensor>& leaves : {std::vector<Tensor>{input, net.state, net.cell}, net.weights})
    for (const Tensor& leaf : leaves)
      if (leaf.grad().defined()) all.push_back(leaf.grad());
  for (Tensor& tensor : all) tensor = gather(tensor.detach()).reshape(-1);
  return torch::cat(all);
}

void expect_sharded_by_batch(int64_t gates, const Run& run) {
  const Tensor x = torch::randn({kRows, kSteps, kFeatures});
  const Tensor expected = trained(gates, run, x, [](const Tensor& t) { return t; });
  for (const bool merge : {true, false})
    for (const int devices : {2, 4}) {  // 4: of rows 2, 2, 2 and none
      SCOPED_TRACE(testing::Message() << devices << (merge ? " merged" : " separate"));
      const Mesh mesh = line_of(devices, merge);
      const auto place = [&](const Tensor& t) {
        return distribute_tensor(t, Layout::replicated(mesh, static_cast<int>(t.dim())));
      };
      const Tensor input = distribute_tensor(x, layout_on(mesh, {"x", "-", "-"}));
      std::optional<StrictMode> strict;
      if (devices == 2) strict.emplace();
      const Run checked = [&](const Network& net, const Tensor& t) {
        const std::vector<Tensor> results = run(net, t);
        if (devices == 2) {
          EXPECT_EQ(layout_of(results[0]), layout_of(t));
          EXPECT_EQ(layout_of(results[1]), layout_on(mesh, {"-", "x", "-"}));
        }
        return results;
      };
      EXPECT_TRUE(torch::allclose(trained(gates, checked, input, place), expected, 1e-4, 1e-5));
    }
}

std::vector<Tensor> listed(const std::tuple<Tensor, Tensor>& results) {
  return {std::get<0>(results), std::get<1>(results)};
}

TEST(Recurrent, LstmFollowsItsBatch) {
  expect_sharded_by_batch(4, [](const Network& net, const Tensor& x) -> std::vector<Tensor> {
    const auto [y, state, cell] =
        torch::lstm(x, {net.state, net.cell}, net.weights, true, kLayers, 0.0, true, true, true);
    return {y, state, cell};
  });
}

TEST(Recurrent, LstmOfDoublesFollowsItsBatch) {  // which LibTorch runs step by step
  const auto doubled = [](const Tensor& t) { return t.to(torch::kDouble); };
  expect_sharded_by_batch(4, [&](const Network& net, const Tensor& x) -> std::vector<Tensor> {
    std::vector<Tensor> weights;
    for (const Tensor& weight : net.weights) weights.push_back(doubled(weight));
    const auto [y, state, cell] =
        torch::lstm(doubled(x), {doubled(net.state), doubled(net.cell)}, weights, true, kLayers, 0.0, true, true, true);
    return {y, state, cell};
  });
}

TEST(Recurrent, LstmTakesWeightsThatLibTorchMakesMatricesOf) {
  const Tensor ones = torch::ones({1, 1, 1}), gates = torch::ones({4, 1, 1});  // of fewer LibTorch reads past the end
  expect_like_one_device(gates, {"-", "-", "-"}, [&](const Tensor& t) {
    const Tensor cell = t.detach().narrow(0, 0, 1).clone().requires_grad_();
    const Tensor y = std::get<0>(torch::lstm(ones, {ones, cell}, {t, gates}, false, 1, 1.0, true, false, true));
    y.backward(torch::ones_like(y));
    return cell.grad();
  });
}

TEST(Recurrent, GruFollowsItsBatch) {
  expect_sharded_by_batch(3, [](const Network& net, const Tensor& x) {
    return listed(torch::gru(x, net.state, net.weights, true, kLayers, 0.0, true, true, true));
  });
}

TEST(Recurrent, RnnFollowsItsBatch) {
  expect_sharded_by_batch(1, [](const Network& net, const Tensor& x) {
    return listed(torch::rnn_tanh(x, net.state, net.weights, true, kLayers, 0.0, true, true, true));
  });
}

}  // namespace
}  // namespace tutti::rules
