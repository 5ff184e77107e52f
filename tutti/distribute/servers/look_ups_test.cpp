// Look-ups in a table that lies elsewhere: what LibTorch's ops and their gradients are of the rows that were brought.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_bag.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/nn/functional/embedding.h>

#include <functional>
#include <set>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/parameter_server_strategy.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/remote_reads.h"

namespace tutti::servers {
namespace {

using ::testing::HasSubstr;
namespace F = torch::nn::functional;

constexpr int64_t kRows = 12, kWidth = 5;

class LookUps : public testing::Test, public RemoteReads {
 protected:
  void read(const Tensor& tensor) override {
    if (tensor.is_same(table)) throw Error(ErrorCode::failed_precondition, "the whole table is read");
  }
  std::optional<LookedUpRows> read_rows(const Tensor& of, const Tensor& ids) override {
    if (!of.is_same(table)) return {};
    std::set<int64_t> rows;
    for (int64_t i = 0; i < ids.numel(); ++i) {
      const auto row = ids.view(-1)[i].item<int64_t>();
      if (row >= 0 && row < kRows) rows.insert(row);
    }
    brought.insert(rows.begin(), rows.end());
    const Tensor numbers = at::tensor(std::vector<int64_t>(rows.begin(), rows.end()), at::kLong);
    return LookedUpRows{numbers, values.index_select(0, numbers)};
  }

  using Op = std::function<Tensor(const Tensor& table)>;
  // In replica view: that the op's result and gradient are those of the plain table.
  void check(const std::string& name, const Op& op) {
    const Tensor plain = values.clone().set_requires_grad(true);
    const Tensor expected = op(plain);
    const Tensor factors = at::randn(expected.sizes());
    const Tensor gradient = gradients((expected * factors).sum(), {plain})[0].to_dense();
    brought.clear();
    const RemoteReadsGuard reads(*this);
    strategy.run([&] {
      const Tensor result = op(table);
      EXPECT_TRUE(at::equal(result, expected)) << name;
      const Tensor own = gradients((result * factors).sum(), {table})[0];
      EXPECT_TRUE(own.is_sparse()) << name;
      EXPECT_EQ(own.sizes(), table.sizes()) << name;
      EXPECT_TRUE(at::equal(own.to_dense(), gradient)) << name;
      EXPECT_EQ(own.coalesce().values().size(0), static_cast<int64_t>(brought.size())) << name;
      return 0;
    });
  }

  ParameterServerStrategy strategy{
      {.cluster_resolver = cluster::ClusterResolver(), .devices = configure_logical_cpus(1)}};
  const Tensor values = at::randn({kRows, kWidth});
  const Tensor table = strategy.build([] { return at::zeros({kRows, kWidth}).set_requires_grad(true); });
  std::set<int64_t> brought;
};

TEST_F(LookUps, GiveTheBitsOfTheWholeTable) {
  const Tensor ids = at::tensor({7, 2, 2, 11, 0, 7, 7}, at::kLong), none = at::zeros({0}, at::kLong);
  const Tensor offsets = at::tensor({0, 3, 3}, at::kLong), weights = at::randn({7});
  check("rows", [&](const Tensor& t) { return at::embedding(t, ids); });
  check("int32", [&](const Tensor& t) { return at::embedding(t, ids.to(at::kInt)); });
  check("of two axes", [&](const Tensor& t) { return at::embedding(t, ids.view({7, 1}).expand({7, 3})); });
  check("no rows", [&](const Tensor& t) { return at::embedding(t, none); });
  check("sparse", [&](const Tensor& t) { return at::embedding(t, ids, -1, false, /*sparse=*/true); });
  check("by frequency", [&](const Tensor& t) { return at::embedding(t, ids, -1, /*scale_grad_by_freq=*/true); });
  for (const int64_t padding : {2, 3, 11})
    check("padding", [&](const Tensor& t) { return at::embedding(t, ids, padding); });
  check("index_select", [&](const Tensor& t) { return t.index_select(0, ids); });
  check("functional", [&](const Tensor& t) {
    return F::embedding(ids, t, F::EmbeddingFuncOptions().padding_idx(-1));  // the last row
  });
  check("twice", [&](const Tensor& t) { return at::embedding(t, ids) + at::embedding(t, ids.flip(0)); });
  for (const int64_t mode : {0, 1, 2}) {
    check("bag", [&](const Tensor& t) { return std::get<0>(at::embedding_bag(t, ids, offsets, false, mode)); });
    for (const int64_t padding : {2, 3, -1, -10})
      check("bag with padding", [&](const Tensor& t) {
        return std::get<0>(at::embedding_bag(t, ids, offsets, false, mode, false, {}, false, padding));
      });
  }
  check("bag of weights",
        [&](const Tensor& t) { return std::get<0>(at::embedding_bag(t, ids, offsets, false, 0, false, weights)); });
}

TEST_F(LookUps, HaveGradientsThatClippingScales) {
  const RemoteReadsGuard reads(*this);
  strategy.run([&] {
    const Tensor gradient = gradients(at::embedding(table, at::tensor({3, 1, 3}, at::kLong)).sum(), {table})[0];
    gradient.data().mul_(at::scalar_tensor(0.5));  // as clip_grad_norm_ does
    EXPECT_EQ(gradient.to_dense()[3][0].item<float>(), 1);
    EXPECT_EQ(gradient.to_dense().sum().item<float>(), 1.5 * kWidth);
    return 0;
  });
}

TEST_F(LookUps, OfRowsThatTheTableHasNotAreRefusedByLibTorch) {
  const RemoteReadsGuard reads(*this);
  for (const int64_t row : {int64_t{-1}, kRows, int64_t{1} << 20})
    strategy.run([&] {
      EXPECT_THAT(what_of([&] {
                    at::embedding(table, at::tensor({int64_t{1}, row}, at::kLong));
                  }),
                  HasSubstr("index out of range"));
      return 0;
    });
}

TEST_F(LookUps, WorkInGlobalViewWithoutGradients) {
  const RemoteReadsGuard reads(*this);
  const Tensor ids = at::tensor({3, 1}, at::kLong);
  EXPECT_THAT(error_of([&] { at::embedding(table, ids); }), HasSubstr("take gradients in strategy.run"));
  const at::NoGradGuard no_grad;
  const Tensor rows = at::embedding(table, ids);
  EXPECT_TRUE(is_mesh_tensor(rows));
  EXPECT_TRUE(at::equal(gather(rows), values.index_select(0, ids)));
}

TEST_F(LookUps, InAFrozenTableHaveNoGradient) {
  const RemoteReadsGuard reads(*this);
  table.set_requires_grad(false);
  strategy.run([&] {
    const Tensor rows = at::embedding(table, at::tensor({3, 1}, at::kLong));
    EXPECT_FALSE(rows.requires_grad());
    EXPECT_TRUE(at::equal(rows, values.index_select(0, at::tensor({3, 1}, at::kLong))));
    return 0;
  });
}

TEST_F(LookUps, AreTheOnlyReads) {
  const RemoteReadsGuard reads(*this);
  strategy.run([&] {
    EXPECT_THAT(error_of([&] { table.norm(); }), HasSubstr("the whole table is read"));
    EXPECT_THAT(error_of([&] { table.index_select(1, at::tensor({0}, at::kLong)); }), HasSubstr("whole table"));
    return 0;
  });
}

}  // namespace
}  // namespace tutti::servers
