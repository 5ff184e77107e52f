#include "tests/support/launched_members.h"

#include <cstdlib>

#include "tutti/cluster/cluster.h"
#include "tutti/cluster/roles.h"
#include "tutti/collectives/mpi/load_mpi.h"
#include "tutti/collectives/mpi/mpi_carrier.h"
#include "tutti/collectives/ring/ring_group.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using cluster::Cluster;

Cluster& launched_cluster() {
  static const auto cluster = Cluster::join();
  return *cluster;
}

int launched_rank() { return launched_cluster().task().index; }

// The place of another process's member.
class AbsentMember final : public Group {
 public:
  AbsentMember(int rank, int size) : Group(rank, size) {}
  void abort(const std::string&) override {}

 protected:
  void execute(const Collective&) override {
    throw Error(ErrorCode::failed_precondition, "this member is another process");
  }
};

std::unique_ptr<Group> join_by_mpi(int size, std::chrono::milliseconds timeout) {
  static int number = 0;  // of the group; MPI's ranks are those of mpirun, as the cluster's are
  ++number;
  Cluster& cluster = launched_cluster();
  const MpiModule& mpi = load_mpi();
  const int rank = start_mpi(mpi, size);
  connect_mpi(mpi, 60s);
  std::vector<int> places;
  std::vector<std::unique_ptr<rpc::Stream>> streams;
  for (int other = 0; other < size; ++other) {
    places.push_back(other);
    streams.push_back(other == rank ? nullptr : cluster.connect({"worker", other}, str("group ", number), 60s));
  }
  return ring_group(rank, std::move(streams), {.timeout = timeout}, mpi_carrier(mpi, rank, places, 2 * number));
}

}  // namespace

int num_launched() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (!size) size = std::getenv("PMI_SIZE");
  return size ? std::atoi(size) : 1;
}

Groups groups_by_mpi(int size, std::chrono::milliseconds timeout) {
  Groups groups;
  for (int rank = 0; rank < size; ++rank)
    groups.push_back(rank == launched_rank() ? join_by_mpi(size, timeout) : std::make_unique<AbsentMember>(rank, size));
  return groups;
}

std::vector<std::string> in_launched_processes(const Groups& groups, const std::function<std::string(Group&)>& f) {
  static int number = 0;
  const auto rank = static_cast<size_t>(launched_rank());
  const std::string error = rank < groups.size() ? f(*groups[rank]) : std::string();
  auto errors = launched_cluster().gather(str("errors ", ++number), error, 60s);
  errors.resize(groups.size());
  return errors;
}

}  // namespace tutti
