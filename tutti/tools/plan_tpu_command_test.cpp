#include "tutti/tools/plan_tpu_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/error_of.h"

namespace tutti::tools {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Planned {
  int status;
  std::string out, err;
};
// By a shell in the place of a program.
Planned plan(const std::vector<std::string>& topologies, const std::string& script) {
  std::ostringstream out, err;
  const int status = plan_tpus({.topologies = topologies, .command = {"sh", "-c", script}}, out, err);
  return {status, out.str(), err.str()};
}

TEST(PlanTpus, PrintsThePlanOfEachTpuAndPassesTheProgramsWordsOn) {
  const Planned planned =
      plan({"v5e:2x2", "v4:2x2x1"}, "echo epoch 1; echo plan for $TUTTI_PLAN_TPU > $TUTTI_PLAN_REPORT");
  EXPECT_EQ(planned.status, 0);
  EXPECT_EQ(planned.out, "plan for v5e:2x2\nplan for v4:2x2x1\n");
  EXPECT_EQ(planned.err, "[v5e:2x2] epoch 1\n[v4:2x2x1] epoch 1\n");
}

TEST(PlanTpus, HasTheStatusOfWhatDoesNotFit) {
  const std::string script = "echo plan > $TUTTI_PLAN_REPORT; test $TUTTI_PLAN_TPU = v5p:2x2x1";
  EXPECT_EQ(plan({"v5e:2x2", "v5p:2x2x1"}, script).status, 1);
  EXPECT_EQ(plan({"v5p:2x2x1"}, script).status, 0);
}

TEST(PlanTpus, SaysThatAProgramEndedWithoutAPlan) {
  const Planned planned = plan({"v5e:2x2"}, "exit 3");
  EXPECT_EQ(planned.status, 2);
  EXPECT_EQ(planned.out, "");
  EXPECT_THAT(planned.err, HasSubstr("no plan for v5e:2x2: sh exited with status 3 before a TPUStrategy compiled"));
}

TEST(PlanTpus, NeedsAProgram) {
  std::ostringstream out, err;
  EXPECT_THAT(error_of([&] { plan_tpus({.topologies = {"v5e:2x2"}}, out, err); }),
              StartsWith("invalid_argument: which program?"));
  EXPECT_THAT(error_of([&] { plan_tpus({.topologies = {"v5e:2x2"}, .command = {"--cpu"}}, out, err); }),
              HasSubstr("there is no option --cpu"));
}

}  // namespace
}  // namespace tutti::tools
