// What is not as it must be in a plugin, and what is said of it.
#include "tutti/pjrt/plugin.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_pjrt_plugin.h"
#include "tests/support/temporary_folder.h"
#include "tutti/pjrt/abi_programs.h"
#include "tutti/pjrt/buffer.h"
#include "tutti/pjrt/client.h"
#include "tutti/pjrt/compile_options.h"
#include "tutti/pjrt/executable.h"
#include "tutti/pjrt/topology_description.h"
#include "tutti/pjrt/tpu_hardware.h"

namespace tutti::pjrt {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

// A fake plugin of the running test's own: another file is another library, with a state of its own.
class FakePlugin {
 public:
  explicit FakePlugin(Fault fault = Fault::none) : path_(folder_ / "libfake.so") {
    std::filesystem::copy_file(TUTTI_FAKE_PJRT_PLUGIN, path_);
    library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_TRUE(library_) << dlerror();
    set(fault);
  }
  ~FakePlugin() { EXPECT_EQ(reinterpret_cast<Alive>(dlsym(library_, "alive"))(), 0) << "the plugin's objects leaked"; }

  void set(Fault fault) const { reinterpret_cast<SetFault>(dlsym(library_, "set_fault"))(fault); }
  const Plugin& load() const { return Plugin::load(path_); }
  std::string error_of_load() const {
    return error_of([&] { load(); });
  }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
  void* library_;
};

const std::vector<float> kNumbers{1, 2, 3, 4, 5, 6};
HostArray array_of(const std::vector<float>& numbers) {
  return {numbers.data(), ElementType::float32, {2, static_cast<int64_t>(numbers.size()) / 2}};
}

std::vector<float> read(const Buffer& buffer, std::chrono::milliseconds timeout = kDefaultTimeout) {
  auto numbers = std::make_shared<std::vector<float>>(6);
  buffer.read(numbers->data(), 24, numbers).wait(timeout);
  return *numbers;
}

TEST(PjrtPlugin, ThatIsNotThereIsNamed) {
  EXPECT_EQ(error_of([] { Plugin::load("/no/such/plugin.so"); }),
            "not_found: there is no PJRT plugin at /no/such/plugin.so");
}

TEST(PjrtPlugin, ThatIsNoLibraryIsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.write("plugin.so", "no library");
  EXPECT_THAT(error_of([&] { Plugin::load(path); }),
              AllOf(StartsWith("invalid_argument: the PJRT plugin cannot be loaded: "), HasSubstr("plugin.so")));
}

TEST(PjrtPlugin, WithoutTheSymbolIsRefused) {
  EXPECT_THAT(error_of([] { Plugin::load("libm.so.6"); }),
              EndsWith("libm.so.6 is no PJRT plugin: it has no function GetPjrtApi; name another library"));
}

TEST(PjrtPlugin, WithoutATableIsRefused) {
  EXPECT_THAT(FakePlugin(Fault::null_table).error_of_load(), EndsWith("GetPjrtApi() gave no table of functions"));
}

TEST(PjrtPlugin, OfAVersionBefore60IsRefused) {
  EXPECT_THAT(FakePlugin(Fault::old_version).error_of_load(),
              AllOf(StartsWith("failed_precondition"), HasSubstr("speaks PJRT 0.59, and 0.60 or newer is required")));
}

TEST(PjrtPlugin, OfAnotherMajorVersionIsRefused) {
  EXPECT_THAT(FakePlugin(Fault::other_major_version).error_of_load(),
              AllOf(HasSubstr("speaks PJRT 1.90"), HasSubstr("of the same major version")));
}

TEST(PjrtPlugin, WhoseTableEndsBeforeItsVersionIsRefused) {
  EXPECT_THAT(FakePlugin(Fault::short_table).error_of_load(),
              HasSubstr("its table of functions is 16 bytes and does not tell its version"));
}

TEST(PjrtPlugin, ThatCannotTellItsErrorsIsRefused) {
  EXPECT_THAT(FakePlugin(Fault::few_entries).error_of_load(), EndsWith("(48 bytes) has no PJRT_Error_Message"));
}

TEST(PjrtPlugin, ThatFailsToStartSaysWhyAndMayBeLoadedLater) {
  const FakePlugin fake(Fault::failed_start);
  EXPECT_EQ(fake.error_of_load(), "failed_precondition: PJRT_Plugin_Initialize of libfake.so: the driver is too old");
  fake.set(Fault::none);
  EXPECT_EQ(fake.load().version(), "0.90");
  EXPECT_EQ(&fake.load(), &fake.load());
}

TEST(PjrtPlugin, TellsItsAttributes) {
  const FakePlugin fake;
  EXPECT_EQ(to_string(fake.load().attributes().at("stablehlo_current_version")), "[1, 24, 0]");
  EXPECT_EQ(to_string(fake.load().attributes().at("fake")), "true");
}

TEST(PjrtPlugin, WithoutAnEntryIsToldWhenThatIsCalled) {
  const FakePlugin fake(Fault::no_compile_entry);
  const auto client = Client::create(fake.load());
  EXPECT_THAT(error_of([&] { client->compile("module", {}); }),
              AllOf(StartsWith("unimplemented: the PJRT plugin "), EndsWith("(0.90) has no PJRT_Client_Compile")));
}

TEST(PjrtClient, ThatCannotBeMadeSaysWhy) {
  const FakePlugin fake(Fault::failed_create);
  EXPECT_EQ(error_of([&] { Client::create(fake.load()); }),
            "not_found: PJRT_Client_Create of libfake.so: no device is attached");
  fake.set(Fault::no_client);
  EXPECT_THAT(error_of([&] { Client::create(fake.load()); }), EndsWith("gave neither client nor error"));
  fake.set(Fault::none);
  EXPECT_THAT(error_of([&] { Client::create(fake.load(), {{"colour", true}}); }), HasSubstr("Unexpected option name"));
}

TEST(PjrtClient, HasItsDevices) {
  const FakePlugin fake;
  const auto client = Client::create(fake.load(), {{"speed", int64_t{3}}});
  EXPECT_EQ(client->platform() + client->platform_version(), "fake3");
  ASSERT_EQ(client->devices().size(), 2u);
  EXPECT_EQ(client->devices()[1].id, 8);
  EXPECT_EQ(client->devices()[1].kind, "Fake v1");
}

TEST(PjrtClient, GivesNumbersBack) {
  const FakePlugin fake;
  const auto client = Client::create(fake.load());
  const Buffer buffer = client->put(array_of(kNumbers), 1);
  EXPECT_EQ(buffer.type(), ElementType::float32);
  EXPECT_EQ(buffer.dims(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read(buffer), kNumbers);
}

TEST(PjrtClient, RefusesWhatCannotFit) {
  const FakePlugin fake;
  const auto client = Client::create(fake.load());
  EXPECT_EQ(error_of([&] { client->put(array_of(kNumbers), 2); }),
            "invalid_argument: there is no device 2: fake has 2");
  const Buffer buffer = client->put(array_of(kNumbers), 0);
  float number;
  EXPECT_EQ(error_of([&] { buffer.read(&number, 4, nullptr); }),
            "invalid_argument: a buffer of 24 bytes is read into 4, which nobody owns while the device writes");
  fake.set(Fault::failed_put);
  EXPECT_EQ(error_of([&] { client->put(array_of(kNumbers), 0); }),
            "resource_exhausted: PJRT_Client_BufferFromHostBuffer of libfake.so: out of memory");
}

TEST(PjrtExecutable, RunsOnEachReplica) {
  const FakePlugin fake;
  const auto client = Client::create(fake.load());
  const LoadedExecutable program = client->compile("module", {.replicas = 2, .devices = {7, 8}});
  const Buffer first = client->put(array_of(kNumbers), 0), second = client->put(array_of({9, 9, 9, 9, 9, 9}), 1);
  const auto run = program.run({{&first}, {&second}});
  run.wait();
  EXPECT_EQ(read(run.outputs[0][0]), kNumbers);
  EXPECT_EQ(read(run.outputs[1][0])[0], 9);
  EXPECT_EQ(program.facts().code_bytes(), 12);
  EXPECT_EQ(program.facts().memory_use().temporaries, 34);
  EXPECT_EQ(program.facts().optimized_program(), "HloModule");
}

TEST(PjrtExecutable, RefusesArgumentsOfOtherReplicas) {
  const FakePlugin fake;
  const auto client = Client::create(fake.load());
  EXPECT_THAT(error_of([&] { client->compile("module", {.replicas = 2, .devices = {7}}); }), HasSubstr("one for each"));
  const LoadedExecutable program = client->compile("module", {.replicas = 2});
  const Buffer buffer = client->put(array_of(kNumbers), 0);
  EXPECT_THAT(error_of([&] { program.run({{&buffer}}); }), EndsWith("2 replicas is given arguments for 1"));
  EXPECT_THAT(error_of([&] { program.run({{&buffer}, {}}); }), EndsWith("replica 1 has 0 arguments, replica 0 has 1"));
}

TEST(PjrtExecutable, ThatDoesNotCompileSaysWhere) {
  const FakePlugin fake(Fault::failed_compile);
  const auto client = Client::create(fake.load());
  EXPECT_EQ(error_of([&] { client->compile("module", {}); }),
            "invalid_argument: PJRT_Client_Compile of libfake.so: line 3: unknown op");
}

TEST(PjrtExecutable, ThatDoesNotStartOrEndSaysWhy) {
  const FakePlugin fake;
  const auto client = Client::create(fake.load());
  const LoadedExecutable program = client->compile("module", {});
  const Buffer buffer = client->put(array_of(kNumbers), 0);
  fake.set(Fault::failed_run);
  EXPECT_EQ(error_of([&] { program.run({{&buffer}}); }),
            "unavailable: PJRT_LoadedExecutable_Execute of libfake.so: a chip is lost");
  fake.set(Fault::failed_event);
  const auto run = program.run({{&buffer}});
  for (int twice = 0; twice < 2; ++twice)
    EXPECT_EQ(error_of([&] { run.wait(); }), "data_loss: a run on replica 0 of libfake.so: a bit flipped");
  EXPECT_EQ(error_of([&] { read(buffer); }), "data_loss: reading a float32 [2, 3] of libfake.so: a bit flipped");
}

TEST(PjrtEvent, ThatDoesNotComeEndsAtTheDeadlineAndKeepsTheMemory) {
  const FakePlugin fake;
  const auto client = Client::create(fake.load());
  const Buffer buffer = client->put(array_of(kNumbers), 0);
  fake.set(Fault::late_event);
  std::weak_ptr<std::vector<float>> memory;
  Event event;
  {
    auto numbers = std::make_shared<std::vector<float>>(6);
    memory = numbers;
    event = buffer.read(numbers->data(), 24, numbers);
  }
  EXPECT_THAT(error_of([&] { event.wait(20ms); }),
              AllOf(StartsWith("deadline_exceeded: reading a float32 [2, 3] has not ended after 20 ms"),
                    HasSubstr("a longer deadline can be given")));
  EXPECT_FALSE(event.is_ready());
  EXPECT_FALSE(memory.expired()) << "the device still writes there";
  fake.set(Fault::none);  // now it comes
  event.wait(20ms);
  EXPECT_TRUE(memory.expired());
}

TEST(PjrtEvent, ThatThePluginDoesNotMakeHasHappened) {
  const FakePlugin fake(Fault::null_event);
  const auto client = Client::create(fake.load());
  EXPECT_EQ(read(client->put(array_of(kNumbers), 0), 0ms), kNumbers);
}

TEST(PjrtClient, ThatCannotBeDestroyedIsAWarning) {
  const FakePlugin fake;
  const CollectedWarnings warnings;
  auto client = Client::create(fake.load());
  fake.set(Fault::failed_destroy);
  client.reset();
  ASSERT_EQ(warnings.lines().size(), 1u);
  EXPECT_THAT(warnings.lines()[0], EndsWith("PJRT_Client_Destroy of libfake.so: the device did not answer"));
}

TEST(PjrtTopology, CompilesWithoutDevices) {
  const FakePlugin fake;
  EXPECT_THAT(error_of([&] { TopologyDescription(fake.load(), "fake:9"); }), EndsWith("no such topology"));
  const TopologyDescription topology(fake.load(), "fake:1");
  EXPECT_EQ(topology.devices().at(0).id, 3);
  EXPECT_EQ(topology.compile("module", {}).memory_use().temporaries, 34);
}

TEST(TpuHardware, IsReadFromThePciBus) {
  const TemporaryFolder folder;
  const auto add = [&](const std::string& slot, const std::string& vendor, const std::string& device) {
    folder.write(slot + "/vendor", vendor + "\n");
    folder.write(slot + "/device", device + "\n");
  };
  add("0000:00:04.0", "0x1ae0", "0x0063");
  add("0000:00:05.0", "0x1ae0", "0x0042");  // Google's network card
  add("0000:00:06.0", "0x8086", "0x0063");
  add("0000:00:07.0", "0x1ae0", "0x005e");
  EXPECT_EQ(find_tpu_chips(folder.path()), (std::vector<std::string>{"v4", "v5e"}));
  EXPECT_TRUE(find_tpu_chips(folder / "none").empty());
}

TEST(TpuHardware, WhereThereIsNoneLibtpuNeitherAsksTheCloudNorLocksTheHost) {
  if (!find_tpu_chips().empty()) GTEST_SKIP() << "this host has TPUs";
  FakePlugin().load();
  EXPECT_TRUE(std::getenv("TPU_SKIP_MDS_QUERY"));
  EXPECT_TRUE(std::getenv("ALLOW_MULTIPLE_LIBTPU_LOAD"));
}

}  // namespace
}  // namespace tutti::pjrt
