#include "tests/support/fake_nccl.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/nccl_devices.h"
#include "tests/support/simulated_devices.h"
#include "tutti/collectives/local/local_group.h"
#include "tutti/collectives/nccl/nccl_group.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

// Says of what it runs that it is in device memory.
class DeviceMember final : public Group {
 public:
  explicit DeviceMember(std::unique_ptr<Group> group) : Group(group->rank(), group->size()), group_(std::move(group)) {}
  std::optional<int> device() const override { return group_->device(); }
  void abort(const std::string& cause) override { group_->abort(cause); }
  std::optional<Error> obstacle_to(const Collective& call) override { return group_->obstacle_to(call); }

 protected:
  void execute(const Collective& call) override {
    Collective on_device = call;
    if (call.place == BufferPlace::host) on_device.place = BufferPlace::device;
    group_->run(on_device);
  }

 private:
  const std::unique_ptr<Group> group_;
};

}  // namespace

FakeNccl::FakeNccl(NcclFault fault, int rank) {
  static std::atomic<int> number = 0;
  path_ = std::filesystem::temp_directory_path() / str("tutti_fake_nccl_", getpid(), '_', ++number);
  std::filesystem::remove(path_);  // of a process of this number that was killed
  std::filesystem::copy_file(TUTTI_FAKE_NCCL, path_);
  open(path_.c_str(), O_RDONLY | O_CLOEXEC);  // stays: the loader takes a later file of the same inode for this one
  library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(library_) << dlerror();
  show_simulated_devices_to(library_);
  set(fault, rank);
}

FakeNccl::~FakeNccl() {
  std::filesystem::remove(path_);
  EXPECT_EQ(num_alive(), 0) << "communicators leaked";
  EXPECT_EQ(complaint(), "");
}

void FakeNccl::set(NcclFault fault, int rank) const {
  function<void(int, int)>("fake_nccl_set")(static_cast<int>(fault), rank);
}

void FakeNccl::set_version(int version) const { function<void(int)>("fake_nccl_set_version")(version); }

cluster::Environment FakeNccl::environment() const {
  return cluster::Environment::Variables{{"TUTTI_NCCL_LIBRARY", path_.string()}};
}

std::string FakeNccl::text(const char* name) const {
  const std::unique_ptr<char, decltype(&std::free)> copy(function<char*()>(name)(), &std::free);
  return copy.get();
}

std::string FakeNccl::complaint() const { return text("fake_nccl_complaint"); }

std::string FakeNccl::take_complaint() const {
  const std::string taken = complaint();
  function<void()>("fake_nccl_forget_complaint")();
  return taken;
}

std::string FakeNccl::calls() const { return text("fake_nccl_calls"); }

JoinedByNccl join_by_nccl(Groups companions, std::chrono::milliseconds timeout,
                          const std::function<cluster::Environment(int rank)>& environment,
                          const std::function<int(int rank)>& device) {
  JoinedByNccl joined{.groups = Groups(companions.size()), .errors = std::vector<std::string>(companions.size())};
  simulated_device(0);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < companions.size(); ++i)
    threads.emplace_back([&, i, rank = static_cast<int>(i)] {
      joined.errors[i] = error_of([&] {
        joined.groups[i] = nccl_group(std::move(companions[i]), simulated_device(device(rank)), {.timeout = timeout},
                                      environment(rank));
      });
    });
  for (std::thread& thread : threads) thread.join();
  return joined;
}

Groups nccl_of_threads(int size, std::chrono::milliseconds timeout) {
  static const FakeNccl& fake = *new FakeNccl;  // which others than these tests have not seen
  auto joined =
      join_by_nccl(local_groups(size, {.timeout = timeout}), timeout, [&](int) { return fake.environment(); });
  EXPECT_EQ(fake.complaint(), "");
  Groups groups;
  for (auto& group : joined.groups) groups.push_back(std::make_unique<DeviceMember>(std::move(group)));
  for (const std::string& error : joined.errors) EXPECT_EQ(error, "no error");
  return groups;
}

}  // namespace tutti
