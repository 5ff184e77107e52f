#include "tutti/dtensor/relayout.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/dtensor/fetch_layout.h"

namespace tutti::dtensor {
namespace {

using testing::HasSubstr;

class Relayout : public testing::TestWithParam<bool> {
 protected:
  Mesh mesh_{{{"x", 2}, {"y", 2}}, configure_logical_cpus(4), {.merge = GetParam()}};
  Mesh other_{{{"z", 4}}, configure_logical_cpus(4), {.merge = GetParam()}};
  Tensor value_ = at::arange(15, at::kFloat).view({5, 3});

  Layout layout(const std::vector<std::string>& specs) { return Layout(specs, mesh_); }
};

INSTANTIATE_TEST_SUITE_P(Buffers, Relayout, testing::Bool(),
                         [](const auto& info) { return info.param ? "merged" : "separate"; });

TEST_P(Relayout, ShardsArePlainTensorsNoMore) {
  const Tensor sharded = shard(value_, layout({"x", kUnsharded}));
  EXPECT_TRUE(is_dtensor(sharded));
  value_.fill_(0);
  EXPECT_EQ(gather(sharded).sum().item<float>(), 105);
  EXPECT_THAT(error_of([&] { shard(sharded, layout({"x", "y"})); }), HasSubstr("mesh tensor already"));
  EXPECT_EQ(code_of([&] { shard(value_, layout({"x"})); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { shard(value_, layout({"x", kMatch})); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { shard(value_, Layout({kUnsharded, kUnsharded}, mesh_, {"x"})); }),
            ErrorCode::invalid_argument);
}

TEST_P(Relayout, MatchKeepsAnAxis) {
  const Tensor sharded = shard(value_, layout({"x", "y"}));
  EXPECT_EQ(fetch_layout(relayout(sharded, layout({kUnsharded, kMatch}))), layout({kUnsharded, "y"}));
  EXPECT_EQ(code_of([&] { relayout(sharded, layout({"y", kMatch})); }), ErrorCode::invalid_argument);
}

TEST_P(Relayout, LikeAnotherTensor) {
  const Tensor like = shard(at::ones({1, 2}, at::kLong), layout({kUnsharded, "x"}));
  const Tensor result = relayout_like(shard(value_, layout({"x", "y"})), like);
  EXPECT_EQ(fetch_layout(result), fetch_layout(like));
  EXPECT_TRUE(at::equal(gather(result), value_));
  EXPECT_EQ(code_of([&] { relayout_like(result, value_); }), ErrorCode::invalid_argument);
}

TEST_P(Relayout, FromMeshToMesh) {
  const Layout target({"z", kUnsharded}, other_);
  const Tensor copy = copy_to_mesh(shard(value_, layout({"x", "y"})), target);
  EXPECT_EQ(fetch_layout(copy), target);
  EXPECT_TRUE(at::equal(gather(copy), value_));
  EXPECT_EQ(fetch_layout(relayout_like(shard(value_, layout({"x", "y"})), copy)), target);
  EXPECT_THAT(error_of([&] { copy + shard(value_, layout({"x", "y"})); }), HasSubstr("operands of two meshes"));
}

TEST_P(Relayout, GradientsGoBackToWhereTheValueCameFrom) {
  const Tensor x = value_.clone().set_requires_grad(true);
  const Tensor y = copy_to_mesh(shard(x, layout({"x", "y"})), Layout({"z", kUnsharded}, other_));
  (y * y).sum().backward();
  EXPECT_FALSE(is_dtensor(x.grad()));
  EXPECT_TRUE(at::equal(x.grad(), value_ * 2));

  const Tensor leaf = shard(value_, layout({"x", "y"})).set_requires_grad(true);
  const Tensor moved = copy_to_mesh(leaf, Layout({kUnsharded, "z"}, other_));
  (moved * moved).sum().backward();
  EXPECT_EQ(fetch_layout(leaf.grad()), fetch_layout(leaf));
  EXPECT_TRUE(at::equal(gather(leaf.grad()), value_ * 2));
}

TEST_P(Relayout, LayoutsCanBeChecked) {
  const Tensor sharded = shard(value_, layout({"x", "y"}));
  EXPECT_NO_THROW(check_layout(sharded, layout({"x", "y"})));
  EXPECT_EQ(error_of([&] { check_layout(sharded, layout({"y", "x"})); }),
            "invalid_argument: check_layout: [x, y] on <x=2, y=2>; expected [y, x] on <x=2, y=2>");
  EXPECT_EQ(code_of([&] { check_layout(value_, layout({"y", "x"})); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { fetch_layout(value_); }), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tutti::dtensor
