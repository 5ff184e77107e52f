#include "tutti/distribute/sharded_variable.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/test_devices.h"
#include "tutti/distribute/embedding_lookup.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/partitioner.h"

namespace tutti {
namespace {

using at::indexing::Ellipsis;
using at::indexing::None;
using at::indexing::Slice;

Tensor rows_of_two(int64_t n) { return at::arange(2 * n, at::kFloat).view({n, 2}); }

ShardedVariable of_three_shards() {
  return ShardedVariable({variable(rows_of_two(4)), variable(rows_of_two(3)), variable(rows_of_two(3))});
}

TEST(ShardedVariable, CutSharesTheWholesMemory) {
  const Tensor whole = rows_of_two(10);
  const auto cut = ShardedVariable::cut(whole, div_rows(10, 3));
  cut.scatter_update(moved(at::tensor({9, 0})), at::zeros({2, 2}));
  EXPECT_EQ(whole.select(0, 9).abs().sum().item<float>(), 0);
  EXPECT_EQ(code_of([&] { ShardedVariable::cut(whole, {4, 4}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { ShardedVariable::cut(whole, {-1, 11}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { ShardedVariable::cut(Tensor(), {1}); }), ErrorCode::invalid_argument);
}

TEST(ShardedVariable, WhatIsReadIsACopy) {
  const auto table = of_three_shards();
  for (const Tensor& read :
       {table.value(), table.index({Slice(0, 2)}), table.index({1}), table.sparse_read(moved(at::tensor({1})))})
    read.fill_(-1);
  EXPECT_GE(table.value().min().item<float>(), 0);
  const ShardedVariable one({variable(rows_of_two(4))});
  for (const Tensor& read :
       {one.value(), one.index({Slice(0, 2)}), one.index({Ellipsis}), one.index({1}), one.index({None})})
    read.fill_(-1);
  EXPECT_GE(one.value().min().item<float>(), 0);
}

TEST(ShardedVariable, IndexesAsTheWholeTensorDoes) {
  const auto table = of_three_shards();
  const Tensor whole = table.value();
  const std::vector<std::vector<at::indexing::TensorIndex>> all{{Ellipsis},
                                                                {None, Ellipsis, None},
                                                                {Slice(3, 8), Ellipsis, 1},
                                                                {Ellipsis, Slice(2, 9, 3), 0},
                                                                {5, None, Slice()}};
  for (const auto& indices : all) EXPECT_TRUE(at::equal(table.index(indices), whole.index(indices)));
  EXPECT_TRUE(at::equal(table.index({Slice(None, None, -3)}), whole.flip(0).slice(0, 0, 10, 3)));
  EXPECT_EQ(code_of([&] { table.index({0, 0, 0}); }), ErrorCode::out_of_range);
  EXPECT_EQ(code_of([&] { table.index({Ellipsis, Ellipsis}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { table.index({at::ones({4}, at::kBool)}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { table.index({0, at::ones({2}, at::kBool)}); }), ErrorCode::invalid_argument);
}

TEST(ShardedVariable, RowsHaveTheGradientsOfOneTable) {
  const auto table = of_three_shards();
  const Tensor ids = moved(at::tensor({9, 0, 4, 9, 5}));
  const Tensor weight = rows_of_two(5);
  const auto grads = gradients((table.sparse_read(ids) * weight).sum(), table.shards());
  const Tensor one = at::zeros({10, 2}).requires_grad_();
  const auto expected = gradients((one.index_select(0, ids) * weight).sum(), {one})[0];
  EXPECT_TRUE(at::equal(at::cat({grads[0], grads[1], grads[2]}), expected));
}

TEST(ShardedVariable, AFailedWriteChangesNoShard) {
  const auto table = of_three_shards();
  const Tensor before = table.value();
  EXPECT_EQ(code_of([&] { table.scatter_add(moved(at::tensor({0, 10})), at::ones({2, 2})); }), ErrorCode::out_of_range);
  EXPECT_EQ(code_of([&] {
              table.scatter_add(moved(at::tensor({0, 1})), at::ones({3, 2}));
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] {
              table.scatter_add(moved(at::tensor({0.5f})), at::ones({1, 2}));
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { table.assign(at::ones({10, 2}, at::kHalf)); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { table.assign(Tensor()); }), ErrorCode::invalid_argument);
  EXPECT_TRUE(at::equal(table.value(), before));
}

TEST(ShardedVariable, IsReadAndWrittenInAScope) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  const Tensor ids = moved(at::tensor({9, 0}));
  strategy.build([&] {
    const auto table = of_three_shards();
    table.scatter_add(ids, at::ones({2, 2}));
    EXPECT_EQ(table.sparse_read(ids).sum().item<float>(), 14);
    EXPECT_EQ(embedding_lookup(table, ids).sum().item<float>(), 14);
  });
}

TEST(ShardedVariable, TakesRowsOfItself) {
  const Tensor whole = rows_of_two(6);
  const auto cut = ShardedVariable::cut(whole, {3, 3});
  const Tensor expected = whole.flip(0).clone();
  cut.assign(whole.flip(0));
  EXPECT_TRUE(at::equal(whole, expected));
  const Tensor shifted = whole.roll(1, 0).clone();
  cut.scatter_update(moved(at::tensor({1, 2, 3, 4, 5, 0})), whole);
  EXPECT_TRUE(at::equal(whole, shifted));
}

TEST(ShardedVariable, ReplicasReadAndWriteItsShards) {
  MirroredStrategy strategy({.devices = test_devices(2)});
  const auto table = strategy.build([] { return of_three_shards(); });
  const auto sums = strategy.run([&] { return table.sparse_read(moved(at::tensor({0, 9}))).sum(); });
  EXPECT_EQ(sums[0].item<float>(), sums[1].item<float>());
  strategy.run([&] { table.assign(at::ones({10, 2})); });
  EXPECT_TRUE(at::equal(table.value(), at::ones({10, 2})));
}

TEST(EmbeddingLookup, AnExampleWithoutWeightHasFiniteGradients) {
  const auto table = of_three_shards();
  const Tensor places = moved(at::tensor({0, 1, 0, 0}, at::kLong)).view({2, 2});
  const Tensor weights = at::zeros({2}).requires_grad_();
  const Tensor ids = at::sparse_coo_tensor(places, moved(at::tensor({1, 9})), {2, 1});
  for (const Combiner combiner : {Combiner::sum, Combiner::mean, Combiner::sqrtn}) {
    const auto rows = embedding_lookup_sparse(
        table, ids, {.weights = at::sparse_coo_tensor(places, weights, {2, 1}), .combiner = combiner});
    for (const Tensor& grad : gradients(rows.sum(), table.shards()))
      EXPECT_TRUE(!grad.defined() || grad.isfinite().all().item<bool>());
  }
}

TEST(EmbeddingLookup, RefusesWhatIsNoTableAndNoIds) {
  const auto table = of_three_shards();
  EXPECT_EQ(code_of([&] { embedding_lookup(table, moved(at::tensor({0.5f}))); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { embedding_lookup(table, moved(at::tensor({-1}))); }), ErrorCode::out_of_range);
  EXPECT_EQ(code_of([&] { embedding_lookup(table, Tensor()); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { embedding_lookup_sparse(table, moved(at::tensor({1}))); }), ErrorCode::invalid_argument);
  const ShardedVariable vector({variable(at::zeros({4}))});
  EXPECT_EQ(code_of([&] { embedding_lookup(vector, moved(at::tensor({1}))); }), ErrorCode::invalid_argument);
  EXPECT_EQ(embedding_lookup(table, at::zeros({2, 0}, at::kLong)).sizes(), at::IntArrayRef({2, 0, 2}));
}

TEST(Partitioner, AVariableIsCutAlongItsRowsAlone) {
  const auto cut = [](std::vector<int64_t> shards) {
    return shard_rows(Partitioner([=](auto, auto) { return shards; }), {4, 2}, at::kFloat);
  };
  EXPECT_EQ(cut({3, 1}), (std::vector<int64_t>{2, 1, 1}));
  for (const auto& wrong : {std::vector<int64_t>{1, 2}, {2}, {5, 1}, {0, 1}, {}})
    EXPECT_EQ(code_of([&] { cut(wrong); }), ErrorCode::invalid_argument);
  EXPECT_EQ(shard_rows(FixedShardsPartitioner(4), {0, 2}, at::kFloat), (std::vector<int64_t>{0}));
  EXPECT_EQ(shard_rows(MaxSizePartitioner({.max_shard_bytes = 1}), {3, 0}, at::kFloat), (std::vector<int64_t>{3}));
  EXPECT_EQ(shard_rows(FixedShardsPartitioner(4), {}, at::kFloat), (std::vector<int64_t>{1}));
  EXPECT_THROW(RoundRobinPlacer(0, {}), Error);
}

}  // namespace
}  // namespace tutti
