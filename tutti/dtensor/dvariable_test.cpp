#include "tutti/dtensor/dvariable.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/checkpoint/checkpoint.h"
#include "tutti/device/logical_devices.h"
#include "tutti/dtensor/default_mesh.h"
#include "tutti/dtensor/fetch_layout.h"
#include "tutti/dtensor/relayout.h"

namespace tutti::dtensor {
namespace {

using testing::HasSubstr;

class DVariables : public testing::TestWithParam<bool> {
 protected:
  Mesh mesh_{{{"x", 2}, {"y", 2}}, configure_logical_cpus(4), {.merge = GetParam()}};
  Layout rows_{{"x", kUnsharded}, mesh_}, columns_{{kUnsharded, "y"}, mesh_};
  Tensor value_ = at::arange(15, at::kFloat).view({5, 3});
};

INSTANTIATE_TEST_SUITE_P(Buffers, DVariables, testing::Bool(),
                         [](const auto& info) { return info.param ? "merged" : "separate"; });

TEST_P(DVariables, TakeTheLayoutOfTheirValue) {
  EXPECT_EQ(fetch_layout(DVariable(shard(value_, rows_))), rows_);
  EXPECT_EQ(fetch_layout(DVariable(value_, {.layout = columns_})), columns_);
  EXPECT_EQ(fetch_layout(DVariable(shard(value_, rows_), {.layout = rows_})), rows_);
  call_with_layout(rows_, [&] {
    const DVariable variable(value_);
    EXPECT_EQ(fetch_layout(variable), rows_);
    return variable.detach();
  });
  EXPECT_THAT(error_of([&] { DVariable(shard(value_, rows_), {.name = "w", .layout = columns_}); }),
              HasSubstr("DVariable 'w': the value lies in [x, unsharded] on <x=2, y=2>, the layout given is "));
  EXPECT_THAT(error_of([&] { DVariable{value_}; }), HasSubstr("is plain; give a layout"));
}

TEST_P(DVariables, CopyTheirValue) {
  const Tensor initial = shard(value_, rows_);
  const DVariable variable(initial, {.name = "w"});
  EXPECT_EQ(variable.name(), "w");
  EXPECT_TRUE(variable.requires_grad());
  EXPECT_TRUE(variable.is_leaf());
  variable.assign(at::zeros({5, 3}));
  EXPECT_TRUE(at::equal(gather(initial), value_));
  EXPECT_FALSE(DVariable(initial, {.requires_grad = false}).requires_grad());
  EXPECT_FALSE(DVariable(shard(value_.to(at::kLong), rows_)).requires_grad());
  EXPECT_EQ(code_of([&] { DVariable(value_.to(at::kLong), {.layout = rows_, .requires_grad = true}); }),
            ErrorCode::invalid_argument);
}

TEST_P(DVariables, KeepTheirLayoutWhenTheyAreAssigned) {
  const DVariable variable(shard(value_, rows_));
  const Tensor before = variable.value();
  variable.assign(shard(value_ * 2, columns_)).assign_add(value_).assign_sub(shard(value_, rows_)).assign_add(1);
  EXPECT_EQ(fetch_layout(variable), rows_);
  EXPECT_TRUE(at::equal(gather(variable.detach()), value_ * 2 + 1));
  EXPECT_TRUE(at::equal(gather(before.detach()), value_));
  variable.assign(3).assign_sub(0.5);
  EXPECT_TRUE(at::equal(gather(variable.detach()), at::full({5, 3}, 2.5)));
}

TEST_P(DVariables, RefuseWhatDoesNotFit) {
  const DVariable variable(shard(value_, rows_), {.name = "w"});
  EXPECT_THAT(error_of([&] { variable.assign(at::zeros({3, 5})); }), HasSubstr("DVariable 'w': assign: a value of"));
  EXPECT_EQ(code_of([&] { variable.assign_add(at::zeros({5, 3}, at::kLong)); }), ErrorCode::invalid_argument);
  const Mesh other({{"z", 4}}, mesh_.devices());
  EXPECT_THAT(error_of([&] { variable.assign_sub(shard(value_, Layout::replicated(other, 2))); }),
              HasSubstr("a value on <z=4> for one on <x=2, y=2>"));
}

struct ModuleOfOne : torch::nn::Module {
  explicit ModuleOfOne(const DVariable& variable) { w = register_parameter("w", variable); }
  Tensor w;
};

TEST_P(DVariables, AreParametersThatOptimizersStep) {
  ModuleOfOne net(DVariable(shard(value_, rows_)));
  torch::optim::SGD sgd(net.parameters(), 0.5);
  net.w.sum().backward();
  sgd.step();
  EXPECT_EQ(fetch_layout(net.w), rows_);
  EXPECT_TRUE(at::equal(gather(net.w.detach()), value_ - 0.5));
}

TEST_P(DVariables, AreSavedAndRestoredIntoAnotherLayout) {
  const TemporaryFolder folder;
  const DVariable saved(shard(value_, rows_));
  Checkpoint({{"w", saved}}).write(folder.path() / "saved");
  const DVariable restored(at::zeros({5, 3}), {.layout = columns_});
  Checkpoint({{"w", restored}}).restore(folder.path() / "saved").assert_consumed();
  EXPECT_EQ(fetch_layout(restored), columns_);
  EXPECT_TRUE(at::equal(gather(restored.detach()), value_));
}

}  // namespace
}  // namespace tutti::dtensor
