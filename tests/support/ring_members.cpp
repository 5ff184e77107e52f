#include "tests/support/ring_members.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using cluster::Door;
using cluster::PeerHello;
using cluster::Task;

// A group with the door that its streams came through.
class RingMember final : public Group {
 public:
  RingMember(int rank, int size, std::unique_ptr<Door> door, std::unique_ptr<Group> group)
      : Group(rank, size), door_(std::move(door)), group_(std::move(group)) {}
  void abort(const std::string& cause) override { group_->abort(cause); }
  std::optional<Error> obstacle_to(const Collective& call) override { return group_->obstacle_to(call); }

 protected:
  void execute(const Collective& call) override { group_->run(call); }

 private:
  const std::unique_ptr<Door> door_;
  const std::unique_ptr<Group> group_;
};

}  // namespace

RingPlace ring_in(const std::filesystem::path& folder) {
  const auto address = [folder](int rank) { return str("unix:", (folder / std::to_string(rank)).string()); };
  return {.listens_at = address, .dials = address};
}

std::unique_ptr<Group> join_ring(const RingPlace& place, int rank, int size, const RingGroupOptions& options,
                                 std::unique_ptr<RingCarrier> carrier) {
  auto door = std::make_unique<Door>(place.listens_at(rank), place.security,
                                     [](const PeerHello&) { return std::optional<Error>(); });
  std::vector<std::unique_ptr<rpc::Stream>> streams(static_cast<size_t>(size));
  for (int peer = 0; peer < rank; ++peer)
    streams[static_cast<size_t>(peer)] =
        cluster::knock(place.dials(peer), str("rank ", peer), PeerHello{.task = {"worker", rank}, .purpose = "ring"},
                       place.security, place.patience);
  for (int peer = rank + 1; peer < size; ++peer) {
    auto visitor = door->take(Task{"worker", peer}, "ring", Door::Clock::now() + place.patience);
    if (!visitor) throw Error(ErrorCode::deadline_exceeded, str("rank ", peer, " has not come"));
    streams[static_cast<size_t>(peer)] = std::move(visitor->stream);
  }
  auto group = ring_group(rank, std::move(streams), options, std::move(carrier));
  return std::make_unique<RingMember>(rank, size, std::move(door), std::move(group));
}

Groups ring_of_threads(int size, std::chrono::milliseconds timeout, const MakeCarrier& make_carrier) {
  const TemporaryFolder folder;
  const RingPlace place = ring_in(folder.path());
  Groups groups(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      groups[static_cast<size_t>(rank)] =
          join_ring(place, rank, size, {.timeout = timeout}, make_carrier ? make_carrier(rank) : nullptr);
    });
  for (std::thread& thread : threads) thread.join();
  return groups;
}

Groups ring_of_processes(int size, std::chrono::milliseconds timeout) {
  const auto folder = std::make_shared<TemporaryFolder>();
  Groups groups;
  for (int rank = 0; rank < size; ++rank)
    groups.push_back(std::make_unique<LaterMember>(
        rank, size, [=] { return join_ring(ring_in(folder->path()), rank, size, {.timeout = timeout}); }));
  return groups;
}

Group& LaterMember::group() const {
  if (!group_) throw Error(ErrorCode::failed_precondition, "this member has joined in another process");
  return *group_;
}

LaterMember::~LaterMember() {
  if (is_used_) return;
  const pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      alarm(60);
      join();
      leave();
    }
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

}  // namespace tutti
