#include "tutti/collectives/mpi/load_mpi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_with(const std::string& path) {
  return error_of([&] { load_mpi(cluster::Environment::Variables{{"TUTTI_MPI_MODULE", path}}); });
}

TEST(LoadMpi, NamesAVariableThatNamesNoFile) {
  EXPECT_THAT(error_with("/no/such/module.so"),
              AllOf(HasSubstr("not_found"), HasSubstr("TUTTI_MPI_MODULE names \"/no/such/module.so\"")));
}

TEST(LoadMpi, RefusesWhatIsNoModule) {
  EXPECT_THAT(error_with("/proc/self/status"), HasSubstr("failed_precondition: the module for MPI cannot be loaded"));
  EXPECT_THAT(error_with(TUTTI_NO_MPI_MODULE), AllOf(HasSubstr("failed_precondition"), HasSubstr("no module for MPI")));
}

TEST(LoadMpi, RefusesAModuleOfAnotherVersion) {
  EXPECT_THAT(error_with(TUTTI_FAKE_MPI_MODULE),
              AllOf(HasSubstr("failed_precondition"), HasSubstr("another version of the library"),
                    HasSubstr("its interface is number 2, this program's 1")));
}

// A table in the place of MPI's.
MpiModule module_that_knows(const char* (*start)(int*, int*), const char* (*connect)(bool*)) {
  return {.abi = kMpiModuleAbi, .built_with = "MPI of the test", .start = start, .connect = connect};
}

TEST(LoadMpi, RefusesAnMpiOfOtherProcesses) {
  const MpiModule alone = module_that_knows(
      [](int* rank, int* size) -> const char* {
        *rank = 0, *size = 1;
        return nullptr;
      },
      nullptr);
  EXPECT_EQ(start_mpi(alone, 1), 0);
  EXPECT_EQ(error_of([&] { start_mpi(alone, 4); }),
            "failed_precondition: MPI knows 1 process, and 4 train together; start them all by one mpirun, that of MPI "
            "of the test, or take CommunicationImplementation::ring");
}

TEST(LoadMpi, TellsWhatMpiSays) {
  const MpiModule broken =
      module_that_knows([](int*, int*) { return "no network"; }, [](bool*) -> const char* { return "no neighbours"; });
  EXPECT_EQ(error_of([&] { start_mpi(broken, 2); }), "failed_precondition: MPI: no network");
  EXPECT_EQ(error_of([&] { connect_mpi(broken, std::chrono::seconds(1)); }), "unavailable: MPI: no neighbours");
}

TEST(LoadMpi, WaitsForOthersUntilTheDeadline) {
  const MpiModule waiting = module_that_knows(nullptr, [](bool*) -> const char* { return nullptr; });
  EXPECT_THAT(error_of([&] { connect_mpi(waiting, std::chrono::milliseconds(20)); }),
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("20 ms")));
}

}  // namespace
}  // namespace tutti
