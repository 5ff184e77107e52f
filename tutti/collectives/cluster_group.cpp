#include "tutti/collectives/cluster_group.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "tutti/cluster/roles.h"
#include "tutti/cluster/rpc/shared_memory.h"
#include "tutti/collectives/mpi/load_mpi.h"
#include "tutti/collectives/mpi/mpi_carrier.h"
#include "tutti/collectives/ring/ring_group.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using cluster::Cluster;
using cluster::Task;
using Way = ClusterGroupOptions::Way;

// The members as they meet: by rank, and what each has to tell the others.
class Members {
 public:
  Members(Cluster& cluster, const ClusterGroupOptions& options)
      : cluster_(cluster),
        options_(options),
        tasks_(options.members.empty() ? cluster::training_tasks(cluster.spec()) : options.members),
        rank_(static_cast<int>(std::ranges::find(tasks_, cluster.task()) - tasks_.begin())) {}

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(tasks_.size()); }
  const Task& task(int rank) const { return tasks_[static_cast<size_t>(rank)]; }

  void tell(const std::string& what, const std::string& value) { cluster_.insert(key(what, rank_), value); }
  std::string ask(int rank, const std::string& what) { return cluster_.get(key(what, rank), options_.timeout); }
  std::unique_ptr<rpc::Stream> connect(int rank) {
    return cluster_.connect(task(rank), str("group ", options_.name), options_.timeout);
  }

 private:
  std::string key(const std::string& what, int rank) const {
    return str("tutti group ", options_.name, ": ", what, " of ", to_string(task(rank)));
  }

  Cluster& cluster_;
  const ClusterGroupOptions& options_;
  const std::vector<Task> tasks_;
  const int rank_;
};

bool are_on_one_host(Members& members) {
  const std::string own = rpc::place_of_process();
  members.tell("place", own);
  bool all = true;
  for (int rank = 0; rank < members.size(); ++rank) all = members.ask(rank, "place") == own && all;
  return all;
}

// The memory of rank 0, which the others open as one of its files.
std::unique_ptr<Group> meet_in_memory(Members& members, const ClusterGroupOptions& options) {
  FileDescriptor memory;
  if (members.rank() == 0) {
    memory = create_group_memory(members.size());
    members.tell("memory", str("/proc/", getpid(), "/fd/", memory.number()));
  } else {
    const std::string path = members.ask(0, "memory");
    const bool is_good = path.starts_with("/proc/") && path.find_first_not_of("/procfd0123456789") == std::string::npos;
    memory = FileDescriptor(is_good ? open(path.c_str(), O_RDWR | O_CLOEXEC) : -1);
    if (!memory)
      throw Error(ErrorCode::failed_precondition,
                  str("the memory of ", to_string(members.task(0)), " (", path, ") cannot be opened (",
                      std::strerror(errno), "): this system keeps processes of one user apart; take the ring"));
  }
  auto group = shared_memory_group(memory.number(), members.rank(), {.timeout = options.timeout});
  members.tell("arrival", "");
  for (int rank = 0; rank < members.size(); ++rank) members.ask(rank, "arrival");  // rank 0 keeps its file open
  return group;
}

// What a member has told: a number from 0 to `last`.
int number_of(Members& members, int rank, const std::string& what, int last) {
  const std::string text = members.ask(rank, what);
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > last)
    throw Error(ErrorCode::data_loss, str(to_string(members.task(rank)), " says that its ", what, " is '", text, "'"));
  return number;
}

// All have the module before anyone starts MPI, which waits for all and has no deadline.
std::unique_ptr<RingCarrier> meet_by_mpi(Members& members, const ClusterGroupOptions& options) {
  constexpr int kTags = 8000;  // of groups; every MPI has twice as many
  static std::atomic<int> num_groups = 0;
  const MpiModule& mpi = load_mpi();
  members.tell("MPI", mpi.built_with);
  for (int rank = 0; rank < members.size(); ++rank)
    if (const std::string other = members.ask(rank, "MPI"); other != mpi.built_with)
      throw Error(ErrorCode::failed_precondition,
                  str(to_string(members.task(rank)), " has a module for ", other, ", and ",
                      to_string(members.task(members.rank())), " one for ", mpi.built_with, "; give all the same"));
  members.tell("rank in MPI", std::to_string(start_mpi(mpi, members.size())));
  if (members.rank() == 0) members.tell("tag", std::to_string(num_groups++ % kTags));
  std::vector<int> places;
  for (int rank = 0; rank < members.size(); ++rank) {
    places.push_back(number_of(members, rank, "rank in MPI", members.size() - 1));
    if (std::ranges::count(places, places.back()) > 1)
      throw Error(ErrorCode::failed_precondition,
                  str(to_string(members.task(rank)), " is rank ", places.back(), " in MPI, and so is another member; ",
                      "one mpirun has to start all of them"));
  }
  connect_mpi(mpi, options.timeout);
  return mpi_carrier(mpi, members.rank(), places, 2 * number_of(members, 0, "tag", kTags - 1));
}

}  // namespace

std::unique_ptr<Group> cluster_group(Cluster& cluster, const ClusterGroupOptions& options) {
  if (cluster.task().type == "ps" || cluster.task().type == "evaluator")
    throw Error(
        ErrorCode::failed_precondition,
        str(to_string(cluster.task()), " does not train together with the workers, and has no part in their group"));
  Members members(cluster, options);
  const bool may_share_memory = options.way == Way::automatic || options.way == Way::shared_memory;
  if (may_share_memory && are_on_one_host(members)) return meet_in_memory(members, options);
  if (options.way == Way::shared_memory)
    throw Error(
        ErrorCode::failed_precondition,
        "the members of this group are not on one host, or not of one user there; memory is shared by such alone. "
        "Take the ring");
  std::unique_ptr<RingCarrier> carrier = options.way == Way::mpi ? meet_by_mpi(members, options) : nullptr;
  std::vector<std::unique_ptr<rpc::Stream>> peers;
  for (int rank = 0; rank < members.size(); ++rank)
    peers.push_back(rank == members.rank() ? nullptr : members.connect(rank));
  return ring_group(members.rank(), std::move(peers), {.timeout = options.timeout}, std::move(carrier));
}

}  // namespace tutti
