#include "tutti/collectives/nccl/library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/support/error_of.h"
#include "tests/support/fake_nccl.h"
#include "tests/support/temporary_folder.h"

namespace tutti::nccl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_with(const std::string& path) {
  return error_of([&] { load(cluster::Environment::Variables{{"TUTTI_NCCL_LIBRARY", path}}); });
}

TEST(NcclLibrary, ThatIsNowhereIsMissedByName) {
  if (dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) GTEST_SKIP() << "this system has an NCCL";
  EXPECT_THAT(error_of([] { load(cluster::Environment()); }),
              AllOf(StartsWith("not_found: NCCL is NVIDIA's library libnccl.so.2"),
                    HasSubstr("name it by TUTTI_NCCL_LIBRARY"), HasSubstr("CommunicationImplementation::auto_")));
}

TEST(NcclLibrary, ThatAVariableNamesInVainIsNotSoughtElsewhere) {
  EXPECT_EQ(error_with("/no/such/libnccl.so.2"),
            "not_found: TUTTI_NCCL_LIBRARY names \"/no/such/libnccl.so.2\", which is no file; correct it or unset it");
  EXPECT_THAT(error_with(""), StartsWith("not_found: TUTTI_NCCL_LIBRARY names \"\""));
  EXPECT_THAT(error_with("/tmp"), StartsWith("not_found: TUTTI_NCCL_LIBRARY names \"/tmp\""));
}

TEST(NcclLibrary, ThatIsNoLibraryIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_with(folder.write("libnccl.so.2", "no library")),
              StartsWith("failed_precondition: NCCL cannot be loaded: "));
}

TEST(NcclLibrary, ThatIsAnotherLibraryIsRefused) {
  EXPECT_THAT(error_with(TUTTI_NO_MPI_MODULE),
              AllOf(StartsWith("failed_precondition"), HasSubstr("has no function ncclGetVersion: it is no NCCL")));
}

TEST(NcclLibrary, WithoutAFunctionIsRefusedByThatName) {
  std::ifstream file(TUTTI_FAKE_NCCL, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const std::string name = "ncclCommFinalize";
  for (size_t at = 0; (at = bytes.find(name, at)) != std::string::npos;)
    bytes.replace(at, name.size(), "ncclCommFinalise");
  const TemporaryFolder folder;
  EXPECT_THAT(error_with(folder.write("libnccl.so.2", bytes)),
              AllOf(StartsWith("failed_precondition"), HasSubstr("has no function ncclCommFinalize")));
}

TEST(NcclLibrary, ThatIsTooOldIsRefusedAndMayBeReplaced) {
  const FakeNccl fake;
  fake.set_version(21304);
  EXPECT_THAT(error_with(fake.path()), HasSubstr("is NCCL 2.13.4, and 2.14 or newer is required; name another by"));
  fake.set_version(2804);
  EXPECT_THAT(error_with(fake.path()), HasSubstr("is NCCL 2.8.4, and 2.14"));
  fake.set_version(22907);
  EXPECT_EQ(load(fake.environment()).version, 22907);
}

TEST(NcclLibrary, IsLoadedOnce) {
  const FakeNccl fake;
  const Library& library = load(fake.environment());
  EXPECT_EQ(&load(fake.environment()), &library);
  const FakeNccl other;
  EXPECT_NE(&load(other.environment()), &library);
}

TEST(NcclLibrary, TellsAFailureWithWhatItSaysOfIt) {
  const FakeNccl fake(NcclFault::no_id);
  const Library& library = load(fake.environment());
  abi::UniqueId id;
  EXPECT_EQ(error_of([&] { library.check(library.call.GetUniqueId(&id), "ncclGetUniqueId"); }),
            "unavailable: NCCL 2.29.7, ncclGetUniqueId: unhandled system error; NCCL_DEBUG=WARN lets it say more");
  EXPECT_EQ(code_of([&] { library.check(abi::Result::unhandled_cuda_error, ""); }), ErrorCode::failed_precondition);
  EXPECT_EQ(code_of([&] { library.check(abi::Result::timeout, ""); }), ErrorCode::deadline_exceeded);
  EXPECT_EQ(code_of([&] { library.check(static_cast<abi::Result>(99), ""); }), ErrorCode::internal);
  library.check(abi::Result::in_progress, "");
}

}  // namespace
}  // namespace tutti::nccl
