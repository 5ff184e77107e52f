// What an op may not do unasked, and what is said of it elsewhere.
#include "tutti/tensor/strict_mode.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include <thread>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Tensor of_two_pieces() {
  const Mesh mesh({{"x", 2}}, configure_logical_cpus(2), {.merge = false});
  return distribute_tensor(at::ones({4}), Layout({"x"}, mesh));
}

TEST(StrictModes, WithoutOneAGatherIsSaidOncePerOp) {
  const CollectedWarnings warnings;
  const std::vector<at::IValue> arguments{of_two_pieces(), 7, std::vector<Tensor>{of_two_pieces()}};
  static int run = 0;  // an op that this process has not seen, also where the test is repeated
  const std::string op = str("op ", ++run, " of StrictModes");
  for (int i = 0; i < 3; ++i) note_gather(op, arguments);
  EXPECT_THAT(warnings.lines(), ElementsAre(AllOf(StartsWith(op), HasSubstr("[x], [x]"))));
}

TEST(StrictModes, RefuseAGatherEachTime) {
  const StrictMode strict;
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(error_of([] { note_gather("another op of StrictModes", {of_two_pieces()}); }),
                AllOf(StartsWith("failed_precondition"), HasSubstr("refuses to gather"), HasSubstr("relayout()")));
}

TEST(StrictModes, NameBothLayoutsOfAMoveThatTheyRefuse) {
  const Tensor x = of_two_pieces();
  const Spec& from = *mesh_impl(x).spec();
  const Spec& to = *intern_replicated(from.shape, from.sizes);
  check_implied_relayout("an op", from, to);
  const StrictMode strict;
  EXPECT_THAT(error_of([&] { check_implied_relayout("an op", from, to); }),
              AllOf(HasSubstr("shape [4]"), HasSubstr(from.layout().to_string()), HasSubstr(to.layout().to_string())));
}

TEST(StrictModes, RefusePlainOperands) {
  check_plain_operand("an op");
  const StrictMode strict;
  EXPECT_THAT(error_of([] { check_plain_operand("an op"); }), HasSubstr("distribute_tensor() it first"));
}

TEST(StrictModes, EndWithTheOutermostAndHoldForTheirThreadAlone) {
  const auto refused = [] { return code_of([] { check_plain_operand("an op"); }).has_value(); };
  {
    const StrictMode outer;
    { const StrictMode inner; }
    EXPECT_TRUE(refused());
    bool refused_elsewhere = true;
    std::thread([&] { refused_elsewhere = refused(); }).join();
    EXPECT_FALSE(refused_elsewhere);
  }
  EXPECT_FALSE(refused());
}

}  // namespace
}  // namespace tutti
