#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "tests/support/group_members.h"
#include "tests/support/temporary_folder.h"
#include "tutti/cluster/door.h"
#include "tutti/collectives/ring/ring_group.h"

namespace tutti {

// Where the members of a ring listen, and by what they know each other.
struct RingPlace {
  std::function<std::string(int rank)> listens_at, dials;  // an address that differs where a proxy stands between
  cluster::Security security = {};
  std::chrono::milliseconds patience = std::chrono::seconds(60);  // until all have joined
};
RingPlace ring_in(const std::filesystem::path& folder);

// Member `rank` of a ring of `size`. Returns when it is connected with all others. Throws what Door and knock() throw.
std::unique_ptr<Group> join_ring(const RingPlace& place, int rank, int size, const RingGroupOptions& options = {},
                                 std::unique_ptr<RingCarrier> carrier = nullptr);

// A ring whose members are threads, joined; one whose members join in processes of their own, as on_all_members makes
// them. gRPC does not survive a fork, so a program has one kind or the other.
using MakeCarrier = std::function<std::unique_ptr<RingCarrier>(int rank)>;
Groups ring_of_threads(int size, std::chrono::milliseconds timeout, const MakeCarrier& make_carrier = {});
Groups ring_of_processes(int size, std::chrono::milliseconds timeout);

// A member that joins when it is told to. One that nobody told to joins in a process of its own when it is destroyed,
// and leaves at once.
class LaterMember : public Group {
 public:
  using Join = std::function<std::unique_ptr<Group>()>;
  LaterMember(int rank, int size, Join join) : Group(rank, size), join_(std::move(join)) {}
  ~LaterMember() override;

  void will_join() { is_used_ = true; }
  void join() { group_ = join_(); }
  void leave() { group_.reset(); }
  void abort(const std::string& cause) override { group().abort(cause); }
  std::optional<Error> obstacle_to(const Collective& call) override { return group().obstacle_to(call); }

 protected:
  void execute(const Collective& call) override { group().run(call); }

 private:
  Group& group() const;

  const Join join_;
  bool is_used_ = false;
  std::unique_ptr<Group> group_;
};

}  // namespace tutti
