#include "tutti/cluster/from_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti::cluster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using State = EnvironmentSource::State;
using Variables = Environment::Variables;

// What each launcher sets, by precedence, and which task it makes of this process.
struct Launcher {
  const char* name;
  Variables variables;
  Task task;
  int size;
};
const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> all{
      {"tutti launch",
       {{"TUTTI_CLUSTER", R"({"cluster": {"worker": ["", ""]}, "task": {"type": "worker", "index": 1}, "memory": 3})"}},
       {"worker", 1},
       2},
      {"TF_CONFIG",
       {{"TF_CONFIG",
         R"({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": "0"}})"}},
       {"chief", 0},
       2},
      {"torchrun",
       {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}},
       {"worker", 3},
       4},
      {"Kubeflow Trainer",
       {{"PET_NODE_RANK", "4"}, {"PET_NNODES", "5"}, {"PET_MASTER_ADDR", "a"}, {"PET_MASTER_PORT", "29500"}},
       {"worker", 4},
       5},
      {"MPI", {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "6"}}, {"worker", 5}, 6},
      {"Slurm",
       {{"SLURM_PROCID", "6"},
        {"SLURM_STEP_NUM_TASKS", "7"},
        {"SLURM_STEP_NODELIST", "n[8-10]"},
        {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1"}},
       {"worker", 6},
       7},
      {"Kubernetes Job", {{"JOB_COMPLETION_INDEX", "7"}, {"TUTTI_JOB_HOSTS", "p-{0..7}.s"}}, {"worker", 7}, 8},
      {"DTensor", {{"DTENSOR_JOBS", "a:1,b:1,c:1"}, {"DTENSOR_CLIENT_ID", "2"}}, {"worker", 2}, 3},
  };
  return all;
}

State state_of(const EnvironmentPlan& plan, std::string_view name) {
  for (const EnvironmentSource& source : plan.sources)
    if (source.name == name) return source.state;
  throw std::logic_error("no such source");
}

TEST(FromEnvironment, IsOneProcessWhereNoLauncherSaysOtherwise) {
  const ClusterResolver alone = from_environment(Variables{{"HOME", "/root"}, {"MASTER_ADDR", "a"}});
  EXPECT_TRUE(alone.cluster_spec().is_empty());
  EXPECT_EQ(alone.task(), std::nullopt);
}

TEST(FromEnvironment, UnderstandsEveryLauncher) {
  for (const Launcher& launcher : launchers()) {
    const EnvironmentPlan plan = plan_environment(launcher.variables);
    ASSERT_FALSE(plan.error) << plan.error->what();
    EXPECT_EQ(plan.resolver.task(), launcher.task) << launcher.name;
    EXPECT_EQ(plan.resolver.cluster_spec().num_tasks(), launcher.size) << launcher.name;
    for (const EnvironmentSource& source : plan.sources)
      EXPECT_EQ(source.state, source.name == launcher.name ? State::taken : State::absent) << source.name;
  }
}

TEST(FromEnvironment, TakesTheFirstAndSaysWhichItShadows) {
  Variables variables;
  for (size_t first = launchers().size(); first-- > 0;) {
    variables.insert(launchers()[first].variables.begin(), launchers()[first].variables.end());
    const EnvironmentPlan plan = plan_environment(variables);
    for (size_t i = 0; i < plan.sources.size(); ++i)
      EXPECT_EQ(plan.sources[i].state, i < first    ? State::absent
                                       : i == first ? State::taken
                                                    : State::shadowed)
          << plan.sources[i].name;
    EXPECT_EQ(plan.resolver.task(), launchers()[first].task);
  }
}

// Of each launcher, every variable but one: an error that names the one, and all that would have to be unset.
TEST(FromEnvironment, RefusesALauncherThatSaysHalf) {
  int num_refused = 0;
  for (const Launcher& launcher : launchers())
    for (const auto& [missing, value] : launcher.variables) {
      Variables variables = launcher.variables;
      variables.erase(missing);
      if (variables.empty() || missing == "SLURM_STEP_NUM_TASKS" || missing == "DTENSOR_JOBS") continue;
      const EnvironmentPlan plan = plan_environment(variables);
      EXPECT_EQ(state_of(plan, launcher.name), State::incomplete) << missing;
      EXPECT_THAT(error_of([&] { from_environment(variables); }),
                  AllOf(HasSubstr("failed_precondition: " + missing + " is not set"),
                        HasSubstr("if this is not meant, unset"), HasSubstr(variables.begin()->first)));
      ++num_refused;
    }
  EXPECT_EQ(num_refused, 4 + 4 + 2 + 3 + 2 + 1);
}

TEST(FromEnvironment, NamesTheVariableThatCannotBe) {
  const auto refusal = [](size_t launcher, const char* name, const char* value) {
    Variables variables = launchers()[launcher].variables;
    variables[name] = value;
    return error_of([&] { from_environment(variables); });
  };
  EXPECT_THAT(refusal(2, "RANK", "4"), HasSubstr("RANK is '4'; it must be a whole number from 0 to 3"));
  EXPECT_THAT(refusal(2, "WORLD_SIZE", "1e9"), HasSubstr("WORLD_SIZE is '1e9'"));
  EXPECT_THAT(refusal(2, "WORLD_SIZE", "99999999999"), HasSubstr("from 1 to 65536"));
  EXPECT_THAT(refusal(2, "MASTER_PORT", "0"), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(refusal(2, "MASTER_ADDR", "a b"), HasSubstr("MASTER_ADDR: the address of worker 0 is 'a b:29500'"));
  EXPECT_THAT(refusal(3, "PET_NNODES", "2:4"), HasSubstr("PET_NNODES is '2:4'"));
  EXPECT_THAT(refusal(5, "SLURM_STEP_TASKS_PER_NODE", "3(x2)"), HasSubstr("SLURM_STEP_TASKS_PER_NODE"));
  EXPECT_THAT(refusal(6, "TUTTI_JOB_HOSTS", "p-{0..6}.s"), HasSubstr("as many as the Job has completions"));
  EXPECT_THAT(refusal(7, "DTENSOR_JOBS", "a:1,,b:1"), HasSubstr("DTENSOR_JOBS"));
}

TEST(FromEnvironment, NamesTheVariableAndTheAddressWhereNobodyCanBe) {
  const auto refusal = [](size_t launcher, const char* name, const std::string& value) {
    Variables variables = launchers()[launcher].variables;
    variables[name] = value;
    return error_of([&] { from_environment(variables); });
  };
  for (const char* address :
       {"b:99999", "b:65536", "b:-1", "b:99999999999", "b:1x", "b:", "b", ":1", "[]:1", "b:c:1", ""})
    EXPECT_THAT(
        refusal(1, "TF_CONFIG",
                str(R"({"cluster": {"worker": ["a:1", ")", address, R"("]}, "task": {"type": "worker", "index": 0}})")),
        HasSubstr(str("invalid_argument: TF_CONFIG: the address of worker 1 is '", address,
                      "'; it must be host:port, such as node7:2222 or [fe80::1]:2222, with a port from 0 to "
                      "65535; or, if this is not meant, unset TF_CONFIG")));
  EXPECT_THAT(refusal(2, "MASTER_ADDR", ""), HasSubstr("MASTER_ADDR: the address of worker 0 is ':29500'; it must"));
  EXPECT_THAT(refusal(2, "MASTER_ADDR", "a\n"), HasSubstr("MASTER_ADDR: the address of worker 0 is 'a?:29500'"));
  EXPECT_THAT(refusal(3, "PET_MASTER_ADDR", ""), HasSubstr("PET_MASTER_ADDR: the address of worker 0 is ':29500'"));
  EXPECT_THAT(refusal(5, "SLURM_STEP_NODELIST", "n8:2,n9,n10"),
              HasSubstr("SLURM_STEP_NODELIST: the address of worker 0 is 'n8:2:8888'"));
  EXPECT_THAT(refusal(6, "TUTTI_JOB_HOSTS", "p-{0..7}.s:99999"),
              HasSubstr("TUTTI_JOB_HOSTS: the address of worker 0 is 'p-0.s:99999'"));
  EXPECT_THAT(refusal(7, "DTENSOR_JOBS", "a:1,b:-1,c:1"), HasSubstr("DTENSOR_JOBS: the address of worker 1 is 'b:-1'"));
}

// At any free port: it tells the others which. The one that they come to first is to be found without that.
TEST(FromEnvironment, TakesPort0OfTasksThatDoNotLead) {
  const auto answer = [](const char* cluster) {
    return error_of([&] {
      from_environment(
          Variables{{"TF_CONFIG", str("{\"cluster\": ", cluster, R"(, "task": {"type": "worker", "index": 0}})")}});
    });
  };
  EXPECT_EQ(answer(R"({"worker": ["a:1", "b:0"], "ps": ["[::1]:0"]})"), "no error");
  EXPECT_EQ(answer(R"({"chief": ["a:1"], "worker": ["b:0"]})"), "no error");
  EXPECT_EQ(answer(R"({"worker": ["a:0"]})"), "no error");  // alone
  EXPECT_THAT(answer(R"({"worker": ["a:0", "b:1"]})"),
              AllOf(HasSubstr("worker 0 is 'a:0'"), HasSubstr("with a port from 1 to 65535")));
  EXPECT_THAT(answer(R"({"chief": ["a:0"], "worker": ["b:1"]})"), HasSubstr("chief 0 is 'a:0'"));
}

TEST(FromEnvironment, RefusesATFConfigWithoutATaskOfItsCluster) {
  const auto refusal = [](const char* text) {
    return error_of([&] { from_environment(Variables{{"TF_CONFIG", text}}); });
  };
  EXPECT_THAT(refusal("{}"), HasSubstr("TF_CONFIG has no \"cluster\""));
  EXPECT_THAT(refusal(R"({"cluster": {"worker": ["a:1"]}})"), HasSubstr("TF_CONFIG has no \"task\""));
  EXPECT_THAT(refusal(R"({"cluster": {"worker": ["a:1"]}, "task": {"index": 0}})"), HasSubstr("with a type"));
  EXPECT_THAT(refusal(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}})"),
              HasSubstr("without an index"));
  EXPECT_THAT(refusal(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}})"),
              HasSubstr("there is no worker 1"));
  EXPECT_THAT(refusal(R"({"cluster": {"worker": {"0": "a:1", "2": "b:1"}}, "task": {"type": "worker", "index": 1}})"),
              HasSubstr("no worker 1"));
  EXPECT_THAT(refusal(R"({"cluster": {"worker": ["a:1"], "boss": ["b:1"]}, "task": {"type": "worker", "index": 0}})"),
              HasSubstr("not 'boss'"));
}

TEST(FromEnvironment, TakesMpirunInsideABatchStepAndSlurmWhereItIsSrunThatSpeaksPmi) {
  Variables mpirun = launchers()[4].variables;
  mpirun.insert({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_STEP_NODELIST", "n1"}});
  EXPECT_EQ(state_of(plan_environment(mpirun), "MPI"), State::taken);
  EXPECT_EQ(state_of(plan_environment(mpirun), "Slurm"), State::absent);
  Variables srun = launchers()[5].variables;
  srun.insert({{"PMI_RANK", "6"}, {"PMI_SIZE", "7"}});
  EXPECT_EQ(state_of(plan_environment(srun), "Slurm"), State::taken);
  EXPECT_EQ(from_environment(srun).master(), "grpc://n10:8888");  // in Slurm's order, which is not that of texts
}

}  // namespace
}  // namespace tutti::cluster
