#include "tutti/keras/layers/attention/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tutti/keras/layers/attention/group_query_attention.h"
#include "tutti/keras/layers/attention/multi_head_attention.h"

namespace tutti::keras::layers {
namespace {

using ::testing::HasSubstr;

Tensor mask(std::vector<int64_t> values) {
  return at::tensor(values).to(at::kBool).view({1, static_cast<int64_t>(values.size())});
}

TEST(Attention, AveragesTheValuesByTheirScores) {
  const Tensor query = at::randn({2, 3, 4}), value = at::randn({2, 5, 6}), key = at::randn({2, 5, 4});
  const Tensor weights = at::softmax(at::matmul(query, key.transpose(1, 2)), -1);
  EXPECT_TRUE(at::allclose(Attention()({query, value, key}), at::matmul(weights, value), 1e-4, 1e-5));
  const auto both = Attention({.return_attention_scores = true}).outputs({query, key});
  EXPECT_TRUE(at::allclose(both[1], weights, 1e-4, 1e-5));
  const Tensor sums = (query.unsqueeze(2) + key.unsqueeze(1)).tanh().sum(-1);
  EXPECT_TRUE(at::allclose(Attention({.score_mode = ScoreMode::concat})({query, value, key}),
                           at::matmul(at::softmax(sums, -1), value), 1e-4, 1e-5));
  const AdditiveAttention additive({.use_scale = false});
  EXPECT_TRUE(at::allclose(additive({query, value, key}), at::matmul(at::softmax(sums, -1), value), 1e-4, 1e-5));
}

TEST(Attention, LeavesOutWhatIsMasked) {
  const Tensor query = at::randn({1, 2, 3}), value = at::randn({1, 4, 3});
  const Attention attention;
  const Tensor output = attention({query, value}, {.masks = {mask({1, 0}), mask({1, 1, 0, 0})}});
  EXPECT_TRUE(at::allclose(output.select(1, 0), attention({query, value.slice(1, 0, 2)}).select(1, 0), 1e-4, 1e-5));
  EXPECT_TRUE(at::equal(output.select(1, 1), at::zeros({1, 3})));
  EXPECT_TRUE(at::equal(attention.impl()->compute_masks({query, value}, {mask({1, 0}), {}})[0], mask({1, 0})));
}

TEST(Attention, LooksAtNoLaterStepIfItIsCausal) {
  const Tensor x = at::randn({1, 4, 3});
  const Tensor whole = Attention({.use_causal_mask = true})({x, x});
  for (int64_t steps = 1; steps <= 4; ++steps) {
    const Tensor start = x.slice(1, 0, steps);
    EXPECT_TRUE(at::allclose(whole.select(1, steps - 1), Attention()({start, start}).select(1, steps - 1), 1e-4, 1e-5));
  }
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const Tensor x = at::zeros({1, 4, 3});
  EXPECT_THAT(error_of([&] { Attention()(x); }),
              HasSubstr("attention: takes {query, value} or {query, value, key}, not 1"));
  EXPECT_THAT(error_of([&] {
                Attention()({x, at::zeros({1, 4, 2})});
              }),
              HasSubstr("query and key need as many features"));
  EXPECT_THAT(error_of([] { Attention({.dropout = 2}); }), HasSubstr("dropout is 2"));
}

// The definition, by einsum.
Tensor by_definition(const MultiHeadAttention& layer, const Tensor& query, const Tensor& value, const Tensor& bias) {
  const auto weight = [&](size_t i) { return layer.weights()[i].value; };
  const Tensor q = at::einsum("ntd,dhk->nhtk", {query, weight(0)}) + weight(1).unsqueeze(1);
  const Tensor k = at::einsum("nsd,dhk->nhsk", {value, weight(2)}) + weight(3).unsqueeze(1);
  const Tensor v = at::einsum("nsd,dhk->nhsk", {value, weight(4)}) + weight(5).unsqueeze(1);
  const Tensor scores = at::einsum("nhtk,nhsk->nhts", {q, k}) / std::sqrt(5.0) + bias;
  return at::einsum("nhts,nhsv,hvo->nto", {at::softmax(scores, -1), v, weight(6)}) + weight(7);
}

TEST(MultiHeadAttention, AttendsInEachHead) {
  const Tensor query = at::randn({2, 3, 4}), value = at::randn({2, 6, 7});
  const MultiHeadAttention layer(
      {.num_heads = 2, .key_dim = 5, .value_dim = 3, .bias_initializer = initializers::Constant(0.3)});
  const Tensor output = layer({query, value});
  EXPECT_EQ(layer.weights()[0].name, "query/kernel");
  EXPECT_EQ(layer.weights()[4].value.sizes(), (Shape{7, 2, 3}));
  EXPECT_EQ(layer.weights()[6].value.sizes(), (Shape{2, 3, 4}));
  EXPECT_TRUE(at::allclose(output, by_definition(layer, query, value, at::zeros({})), 1e-4, 1e-5));
  EXPECT_EQ(layer.impl()->compute_output_shapes({{kUnknown, 3, 4}, {kUnknown, 6, 7}})[0], (Shape{kUnknown, 3, 4}));
  const Tensor hidden = at::tensor({0., 0., 0., -1e9, -1e9, -1e9}, at::kFloat);
  const Tensor values = mask({1, 1, 1, 0, 0, 0}).expand({2, 6});
  EXPECT_TRUE(at::allclose(layer({query, value}, {.masks = {{}, values}}), by_definition(layer, query, value, hidden),
                           1e-4, 1e-5));
}

TEST(MultiHeadAttention, LooksWhereTheAttentionMaskSaysSo) {
  const Tensor query = at::randn({2, 3, 4}), value = at::randn({2, 6, 4});
  const MultiHeadAttention layer({.num_heads = 2, .key_dim = 5});
  const Tensor looks = at::rand({2, 3, 6}) < 0.7;
  const Tensor bias = at::zeros({2, 1, 3, 6}).masked_fill(looks.logical_not().unsqueeze(1), -1e9);
  const Tensor output = layer({query, value, value, looks});
  EXPECT_TRUE(at::allclose(output, by_definition(layer, query, value, bias), 1e-4, 1e-5));
  EXPECT_THAT(error_of([&] {
                layer({query, value, value, looks.slice(2, 0, 5)});
              }),
              HasSubstr("the attention mask has shape (2, 3, 5); it must be (2, 3, 6)"));
  EXPECT_THAT(error_of([&] {
                layer({query, value, value, looks.to(at::kFloat)});
              }),
              HasSubstr("the attention mask has dtype Float; it must be bool"));
}

TEST(MultiHeadAttention, GivesItsScoresAndTheSameOutput) {
  const Tensor x = at::randn({2, 3, 4});
  const MultiHeadAttention with(
      {.num_heads = 2, .key_dim = 4, .use_causal_mask = true, .return_attention_scores = true});
  const MultiHeadAttention without({.num_heads = 2, .key_dim = 4, .use_causal_mask = true});
  const auto both = with.outputs({x});
  without.build({kUnknown, 3, 4});
  without.set_weights(with.get_weights());
  EXPECT_TRUE(at::allclose(both[0], without(x), 1e-4, 1e-5));
  EXPECT_EQ(both[1].sizes(), (Shape{2, 2, 3, 3}));
  EXPECT_TRUE(at::allclose(both[1].triu(1), at::zeros({2, 2, 3, 3})));
  EXPECT_TRUE(at::allclose(both[1].sum(-1), at::ones({2, 2, 3})));
}

TEST(MultiHeadAttention, HasNoNaNWhereEverythingIsMasked) {
  const Tensor x = at::randn({1, 3, 4});
  const MultiHeadAttention layer({.num_heads = 1, .key_dim = 4});
  EXPECT_TRUE(layer({x}, {.masks = {mask({0, 0, 0})}}).isfinite().all().item<bool>());
  EXPECT_THAT(error_of([] { MultiHeadAttention({.num_heads = 0, .key_dim = 1}); }), HasSubstr("num_heads 0"));
}

TEST(GroupQueryAttention, SharesKeysAndValuesOfAGroup) {
  const GroupQueryAttention shared({.head_dim = 3, .num_query_heads = 4, .num_key_value_heads = 2});
  const MultiHeadAttention all({.num_heads = 4, .key_dim = 3});
  const Tensor query = at::randn({2, 5, 6}), value = at::randn({2, 7, 6});
  shared.build_all({{kUnknown, 5, 6}, {kUnknown, 7, 6}});
  all.build_all({{kUnknown, 5, 6}, {kUnknown, 7, 6}});
  std::vector<Tensor> weights = shared.get_weights();
  EXPECT_EQ(weights[2].sizes(), (Shape{6, 2, 3}));
  EXPECT_EQ(shared.weights()[2].name, "key/kernel");
  for (size_t i = 2; i < 6; ++i) {  // kernel and bias of key and value
    if (i % 2 == 1) weights[i].normal_();
  }
  shared.set_weights(weights);
  for (size_t i = 2; i < 6; ++i) weights[i] = weights[i].repeat_interleave(2, -2);
  all.set_weights(weights);
  EXPECT_TRUE(at::allclose(shared({query, value}), all({query, value}), 1e-5, 1e-6));
  EXPECT_THAT(error_of([] { GroupQueryAttention({.head_dim = 3, .num_query_heads = 4, .num_key_value_heads = 3}); }),
              testing::HasSubstr("grouped_query_attention: 3 heads of keys and values for 4 of queries"));
}

}  // namespace
}  // namespace tutti::keras::layers
