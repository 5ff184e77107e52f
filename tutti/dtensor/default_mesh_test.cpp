#include "tutti/dtensor/default_mesh.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/dtensor/fetch_layout.h"
#include "tutti/dtensor/relayout.h"
#include "tutti/dtensor/stateless_random.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tensor/view.h"

namespace tutti::dtensor {
namespace {

using testing::HasSubstr;

class DefaultMeshes : public testing::TestWithParam<bool> {
 protected:
  Mesh mesh_{{{"x", 2}, {"y", 2}}, configure_logical_cpus(4), {.merge = GetParam()}};
  Mesh other_{{{"z", 4}}, configure_logical_cpus(4), {.merge = GetParam()}};
  Layout layout_{{"x", kUnsharded}, mesh_};
};

INSTANTIATE_TEST_SUITE_P(Buffers, DefaultMeshes, testing::Bool(),
                         [](const auto& info) { return info.param ? "merged" : "separate"; });

TEST_P(DefaultMeshes, Nest) {
  EXPECT_EQ(get_default_mesh(), std::nullopt);
  {
    const auto outer = default_mesh(mesh_);
    EXPECT_EQ(fetch_layout(at::ones({4})), Layout::replicated(mesh_, 1));
    {
      const auto inner = default_mesh(other_);
      EXPECT_EQ(get_default_mesh(), other_);
      EXPECT_EQ(fetch_layout(at::ones({4})).mesh(), other_);
    }
    EXPECT_EQ(get_default_mesh(), mesh_);
  }
  EXPECT_FALSE(is_dtensor(at::ones({4})));
}

TEST_P(DefaultMeshes, LayoutsAreOfTheirRankAlone) {
  const Tensor result = call_with_layout(layout_, [&] {
    EXPECT_EQ(get_default_mesh(), mesh_);
    EXPECT_EQ(fetch_layout(at::zeros({3})), Layout::replicated(mesh_, 1));
    EXPECT_EQ(fetch_layout(stateless_normal({3}, {.seed = 1})), Layout::replicated(mesh_, 1));
    return at::ones({3, 4}) * 2;
  });
  EXPECT_EQ(fetch_layout(result), layout_);
  EXPECT_TRUE(at::equal(gather(result), at::ones({3, 4}) * 2));
}

TEST_P(DefaultMeshes, ResultsAreLaidOut) {
  const Tensor plain = at::rand({3, 4});
  EXPECT_EQ(fetch_layout(call_with_layout(layout_, [&] { return plain; })), layout_);
  EXPECT_EQ(fetch_layout(call_with_layout(layout_, [] { return at::ones({3, 4}).t(); })), layout_);
  EXPECT_FALSE(is_dtensor(call_with_layout({}, [] { return at::ones({3, 4}); })));
  EXPECT_THAT(error_of([&] { call_with_layout(layout_, [] { return at::ones({3}); }); }), HasSubstr("has rank 2"));
  EXPECT_EQ(code_of([&] { call_with_layout(Layout({kMatch}, mesh_), [] { return at::ones({3}); }); }),
            ErrorCode::invalid_argument);
}

TEST_P(DefaultMeshes, RandomNumbersAreThoseOfOneDevice) {
  set_random_seed(5);
  const Tensor plain = at::rand({3, 4});
  set_random_seed(5);
  EXPECT_TRUE(at::equal(gather(call_with_layout(layout_, [] { return at::rand({3, 4}); })), plain));
}

// Of each buffer of a new tensor: it holds its piece and no more.
TEST_P(DefaultMeshes, LeavesOwnTheirMemory) {
  const auto make_both = [&] {
    return std::vector{call_with_layout(layout_, [] { return at::zeros({4, 4}); }),
                       call_with_layout(layout_, [] { return stateless_normal({4, 4}, {.seed = 1}); }),
                       shard(at::zeros({4, 4}), layout_)};
  };
  for (const Tensor& tensor : make_both())
    EXPECT_EQ(local(tensor).storage().nbytes(), static_cast<size_t>(local(tensor).numel()) * sizeof(float));
}

TEST_P(DefaultMeshes, LeavesTrain) {
  Tensor leaf = call_with_layout(layout_, [] { return at::ones({4, 4}); });
  leaf.set_requires_grad(true);
  EXPECT_TRUE(leaf.is_leaf());
  (leaf * leaf).sum().backward();
  EXPECT_EQ(fetch_layout(leaf.grad()), layout_);
  const at::NoGradGuard no_grad;
  leaf.sub_(leaf.grad() * 0.25);
  EXPECT_TRUE(at::equal(gather(leaf), at::ones({4, 4}) * 0.5));
}

TEST_P(DefaultMeshes, AreForGlobalView) {
  const ThreadViewGuard replica({.replica = 0, .mesh = MeshShape::of(mesh_)});
  EXPECT_THAT(error_of([&] { const auto guard = default_mesh(mesh_); }), HasSubstr("called by replica 0"));
  EXPECT_EQ(code_of([&] { call_with_layout(layout_, [] { return at::ones({4, 4}); }); }),
            ErrorCode::failed_precondition);
  EXPECT_EQ(code_of([&] { shard(at::ones({4, 4}), layout_); }), ErrorCode::failed_precondition);
}

}  // namespace
}  // namespace tutti::dtensor
