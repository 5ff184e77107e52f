// Plans of calls on a mesh of 2 x 2 devices with separate buffers: pure values, of which no call is made here.
#include "tutti/tensor/planner.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <optional>

#include "tests/support/error_of.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/separate_parts.h"

namespace tutti {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Arguments = std::vector<at::IValue>;

class Plans : public testing::Test {
 protected:
  Mesh mesh_{{{"x", 2}, {"y", 2}}, configure_logical_cpus(4), {.merge = false}};
  std::optional<SeparateParts> parts_stay_apart_{std::in_place};

  Tensor tensor(std::vector<int64_t> sizes, const std::vector<std::string>& axes) const {
    return distribute_tensor(at::zeros(sizes), Layout(axes, mesh_));
  }

  static OperatorInfo info_of(const char* name, const char* overload = "") {
    return OperatorInfo(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
  }

  Plan plan_of(const OperatorInfo& info, const Arguments& arguments, Rule rule) const {
    Planner planner(info, MeshShape::of(mesh_), arguments);
    const bool sharded = rule(planner);
    return planner.finish(sharded);
  }
  Plan plan_of(const OperatorInfo& info, const Arguments& arguments) const {
    return plan_of(info, arguments, info.rule);
  }

  // The matrices of [4, 6] and [6, 2] of the example in planner.h.
  Arguments matrices() const { return {tensor({4, 6}, {"x", "y"}), tensor({6, 2}, {"y", kUnsharded})}; }
};

template <class T>
std::vector<int64_t> list_of(const T& values) {
  return {values.begin(), values.end()};
}

TEST_F(Plans, AProductMakesACallForEachPairOfPiecesThatMeet) {
  const Plan plan = plan_of(info_of("aten::mm"), matrices());
  EXPECT_FALSE(plan.gathers);
  EXPECT_EQ(plan.num_calls, 4);
  EXPECT_THAT(list_of(plan.operands[0].component_of_call), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(list_of(plan.operands[1].component_of_call), ElementsAre(0, 1, 0, 1));
  EXPECT_FALSE(plan.operands[0].relayout || plan.operands[1].relayout);
}

TEST_F(Plans, AResultIsTheSumOfTheCallsThatWorkedOnPartsOfTheMissingAxis) {
  const Plan plan = plan_of(info_of("aten::mm"), matrices());
  const Plan::Result& product = plan.results[0];
  EXPECT_THAT(list_of(product.axes), ElementsAre(0, -1));
  EXPECT_EQ(product.sizes[0], 4);
  EXPECT_EQ(product.parts, 0b10u);
  EXPECT_EQ(product.combination, Combination::sum);
  EXPECT_THAT(list_of(product.lengths), ElementsAre(2, -1, 2, -1));
  EXPECT_THAT(list_of(plan.first_term), ElementsAre(0, 0, 2, 2));
  ASSERT_EQ(product.terms.size(), 2);  // mm adds its later terms to the first while it is called
  EXPECT_THAT(list_of(product.terms[0]), ElementsAre(0));
  EXPECT_THAT(list_of(product.terms[1]), ElementsAre(2));
}

TEST_F(Plans, SmallPartsAreJoinedWhereMemoryIsShared) {
  parts_stay_apart_.reset();
  const Plan plan = plan_of(info_of("aten::mm"), matrices());
  EXPECT_EQ(plan.num_calls, 2);
  EXPECT_TRUE(plan.operands[0].join && plan.operands[1].join);
  EXPECT_EQ(plan.results[0].parts, 0u);
  EXPECT_EQ(plan.accumulate, nullptr);
}

TEST_F(Plans, LargePartsStayApart) {
  parts_stay_apart_.reset();
  const Plan plan = plan_of(info_of("aten::mm"), {tensor({400, 600}, {"x", "y"}), tensor({600, 2}, {"y", kUnsharded})});
  EXPECT_EQ(plan.num_calls, 4);
  EXPECT_FALSE(plan.operands[0].join);
}

TEST_F(Plans, WhereLayoutsDisagreeTheSmallerOperandMoves) {
  const Plan plan =
      plan_of(info_of("aten::mm"), {tensor({4, 6}, {kUnsharded, "y"}), tensor({6, 2}, {"x", kUnsharded})});
  EXPECT_FALSE(plan.operands[0].relayout);
  EXPECT_TRUE(plan.operands[1].relayout);
}

TEST_F(Plans, AnOpWithoutAShardedFormIsOneCallOnGatheredOperands) {
  const Plan plan = plan_of(info_of("aten::mm"), matrices(), [](Planner&) { return false; });
  EXPECT_TRUE(plan.gathers);
  EXPECT_EQ(plan.num_calls, 1);
  EXPECT_TRUE(plan.operands[0].relayout && plan.operands[1].relayout);
}

TEST_F(Plans, WhatAnOpWritesIsNotMoved) {
  const auto rule = [](Planner& planner) {
    planner.operand(0, unsharded(1));
    planner.result(1);
    return true;
  };
  EXPECT_TRUE(plan_of(info_of("aten::zero_"), {tensor({4}, {"x"})}, rule).gathers);
}

// Of 5 rows on 4 devices the last has none, and there is no maximum of nothing.
TEST_F(Plans, NoCallIsMadeOnAnEmptyPart) {
  const Mesh row({{"x", 4}}, configure_logical_cpus(4), {.merge = false});
  const Arguments arguments{distribute_tensor(at::zeros({5, 2}), Layout({"x", kUnsharded}, row)),
                            std::vector<int64_t>{0}, false};
  const OperatorInfo info = info_of("aten::amax");
  Planner planner(info, MeshShape::of(row), arguments);
  const bool sharded = info.rule(planner);
  const Plan plan = planner.finish(sharded);
  EXPECT_THAT(plan.idle, ElementsAre(false, false, false, true));
  EXPECT_THAT(list_of(plan.results[0].terms[0]), ElementsAre(0, 1, 2));
}

TEST_F(Plans, CallsGetTheSizesOfTheirPieces) {
  const auto rule = [](Planner& planner) {
    const Spec& spec = *planner.spec(0);
    planner.operand(0, spec.axes);
    planner.local_sizes(1, spec.axes, spec.sizes);
    planner.result(spec.axes, spec.sizes);
    return true;
  };
  const Plan plan =
      plan_of(info_of("aten::view"), {tensor({5, 2}, {"x", kUnsharded}), std::vector<int64_t>{5, 2}}, rule);
  ASSERT_EQ(plan.patches.size(), 1);
  EXPECT_THAT(plan.patches[0].value_of_call[0].toIntVector(), ElementsAre(3, 2));
  EXPECT_THAT(plan.patches[0].value_of_call[1].toIntVector(), ElementsAre(2, 2));
}

TEST_F(Plans, ARuleMustNameEveryOperand) {
  const auto rule = [](Planner& planner) {
    planner.operand(0, unsharded(2));
    return true;
  };
  EXPECT_THAT(error_of([&] { plan_of(info_of("aten::mm"), matrices(), rule); }),
              HasSubstr("aten::mm: a rule left out tensor argument 1"));
}

// What each of two processes plans of the product above, whose mesh is divided along y.
TEST_F(Plans, OfADividedMeshDifferInTheCallsThatAreMadeAlone) {
  for (const int rank : {0, 1}) {
    const Mesh mesh({{"x", 2}, {"y", 2}}, configure_logical_cpus(4), {.merge = false, .name = str("rank ", rank)});
    const MeshShape* shape = MeshShape::of(mesh, {.dimension = 1, .rank = rank, .processes = 2});
    const OperatorInfo info = info_of("aten::mm");
    const Arguments arguments{distribute_tensor(at::zeros({4, 6}), Layout({"x", "y"}, mesh)),
                              distribute_tensor(at::zeros({6, 2}), Layout({"y", kUnsharded}, mesh))};
    Planner planner(info, shape, arguments);
    const bool sharded = info.rule(planner);
    const Plan plan = planner.finish(sharded);
    EXPECT_THAT(plan.is_made, ElementsAre(rank == 0, rank == 1, rank == 0, rank == 1));
    EXPECT_TRUE(plan.is_combined_across);
    EXPECT_EQ(plan.accumulate, nullptr);
    EXPECT_THAT(list_of(plan.results[0].terms[0]), ElementsAre(0, 1));
    EXPECT_THAT(list_of(plan.results[0].terms[1]), ElementsAre(2, 3));
  }
}

}  // namespace
}  // namespace tutti
