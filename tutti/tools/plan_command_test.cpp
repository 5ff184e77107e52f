#include "tutti/tools/plan_command.h"

#include <gtest/gtest.h>

#include <sstream>

namespace tutti::tools {
namespace {

using Variables = cluster::Environment::Variables;

TEST(PlanEnvironment, ShowsWhatIsTakenAndWhatItShadows) {
  std::ostringstream out;
  EXPECT_EQ(plan_environment(Variables{{"TF_CONFIG", R"({"cluster": {"worker": ["a:2222", "b:2222"], "ps": ["c:2222"]},
                                                         "task": {"type": "worker", "index": 1}})"},
                                       {"OMPI_COMM_WORLD_RANK", "0"}},
                             out),
            0);
  EXPECT_EQ(out.str(), R"(tutti launch      absent
TF_CONFIG         taken       TF_CONFIG
torchrun          absent
Kubeflow Trainer  absent
MPI               shadowed    OMPI_COMM_WORLD_RANK
Slurm             absent
Kubernetes Job    absent
DTensor           absent

This process is worker 1, rank 1 of 2.
  ps 0          c:2222
  worker 0      a:2222
  worker 1      b:2222   this process
)");
}

TEST(PlanEnvironment, SaysWhatProgramsWouldRefuse) {
  std::ostringstream out;
  EXPECT_EQ(plan_environment(Variables{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}, out), 1);
  const std::string text = out.str();
  EXPECT_NE(text.find("torchrun          incomplete  RANK WORLD_SIZE MASTER_ADDR\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Programs refuse this: MASTER_PORT is not set: torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and "
                      "MASTER_PORT together; or, if this is not meant, unset RANK, WORLD_SIZE, MASTER_ADDR\n"),
            std::string::npos)
      << text;
}

TEST(PlanEnvironment, RefusesAddressesWhereNobodyCanBe) {
  std::ostringstream out;
  EXPECT_EQ(plan_environment(Variables{{"TF_CONFIG", R"({"cluster": {"worker": ["a:99999", "b:-1"]},
                                                         "task": {"type": "worker", "index": 0}})"}},
                             out),
            1);
  EXPECT_NE(out.str().find("Programs refuse this: TF_CONFIG: the address of worker 0 is 'a:99999'; "),
            std::string::npos)
      << out.str();
}

TEST(PlanEnvironment, SaysThatAProcessIsAlone) {
  std::ostringstream out;
  EXPECT_EQ(plan_environment({}, out), 0);
  EXPECT_NE(out.str().find("This process is alone"), std::string::npos);
}

}  // namespace
}  // namespace tutti::tools
