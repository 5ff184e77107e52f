// What the sum of processes of one host costs a step: each writes its values, they are summed in place over shared
// memory (float32), and each uses the sums. Values of a pack's size lie where a step has them, in memory of the group;
// those of MPI in memory of the process. The time is that of the step less that of one that only writes and uses.
//
//   all_reduce_processes [N]               N processes, 2 by default, started here
//   all_reduce_processes N ring            the same over gRPC, as between hosts
//   mpirun -n N all_reduce_processes       where MPI was found when it was built: beside MPI_Allreduce, in turns
//   mpirun -n N all_reduce_processes mpi   the same of our sums by MPI
//
// Per size, over rounds: the median time, its 10 % and 90 % quantiles, the processor time of one process, with MPI its
// median and the median ratio of the rounds, ours / MPI's, and the median time of a step that does not sum.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "paired.h"
#include "tutti/cluster/cluster.h"
#include "tutti/collectives/cluster_group.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"
#include "tutti/core/str.h"

#ifdef TUTTI_MPI
#include <mpi.h>
#endif

namespace tutti::benchmarks {
namespace {

using AllReduceInPlace = std::function<void(float* values, size_t count)>;

constexpr size_t kSmallestShared = 4 << 10;  // as tensor/across_processes.cpp has it

void print_head(bool has_mpi) {
  std::printf("%12s %12s %12s %12s %12s%s %12s\n", "bytes", "us", "p10", "p90", "cpu us",
              has_mpi ? "       mpi us   ours/mpi" : "", "without us");
}

// Lets the processes begin together, and none of them with a time slice that it has used up.
void settle(Group& group) {
  std::this_thread::sleep_for(std::chrono::milliseconds(4));
  group.run({});
}

void measure(Group& group, const AllReduceInPlace& mpi, size_t num_bytes) {
  const int steps = num_bytes <= 1 << 10 ? 2000 : num_bytes <= 1 << 16 ? 400 : num_bytes <= 1 << 20 ? 60 : 3;
  const size_t count = num_bytes / sizeof(float);
  std::vector<float> own(count), gradients(count, 1), weights(count);
  const auto shared = num_bytes < kSmallestShared ? nullptr : group.allocate_shared(num_bytes);
  float* const ours = shared ? reinterpret_cast<float*>(shared.get()) : own.data();
  const auto sum = [&](float* values) {
    group.run({.kind = CollectiveKind::all_reduce,
               .count = static_cast<int64_t>(count),
               .input = values,
               .output = values,
               .place = shared ? BufferPlace::shared : BufferPlace::host});
  };
  const auto seconds_of = [&](float* values, const std::function<void()>& summing) {
    settle(group);
    const auto step = [&] {
      for (size_t i = 0; i < count; ++i) values[i] = 2 * gradients[i];
      if (summing) summing();
      for (size_t i = 0; i < count; ++i) weights[i] -= values[i];
    };
    return seconds_per_step(step, steps);
  };
  std::vector<double> our_seconds, mpi_seconds, bare_seconds, ratios, processor;
  for (int round = 0; round < 25; ++round) {
    bare_seconds.push_back(seconds_of(own.data(), {}));
    const double before = processor_seconds();
    our_seconds.push_back(seconds_of(ours, [&] { sum(ours); }) - bare_seconds.back());
    processor.push_back((processor_seconds() - before) / steps - bare_seconds.back());
    if (!mpi) continue;
    mpi_seconds.push_back(seconds_of(own.data(), [&] { mpi(own.data(), count); }) - bare_seconds.back());
    ratios.push_back(our_seconds.back() / mpi_seconds.back());
  }
  if (group.rank() != 0) return;
  const auto us = [](const std::vector<double>& seconds, double q) { return 1e6 * quantile(seconds, q); };
  std::printf("%12zu %12.2f %12.2f %12.2f %12.2f", num_bytes, us(our_seconds, 0.5), us(our_seconds, 0.1),
              us(our_seconds, 0.9), us(processor, 0.5));
  if (mpi) std::printf(" %12.2f %10.3f", us(mpi_seconds, 0.5), quantile(ratios, 0.5));
  std::printf(" %12.2f\n", us(bare_seconds, 0.5));
  std::fflush(stdout);
}

void measure_all(Group& group, const AllReduceInPlace& mpi) {
  tune_allocator();
  if (group.rank() == 0) print_head(static_cast<bool>(mpi));
  for (const size_t num_bytes : {size_t{8}, size_t{1} << 10, size_t{1} << 14, size_t{1} << 16, size_t{1} << 18,
                                 size_t{1} << 20, size_t{1} << 22, size_t{1} << 24, size_t{1} << 26})
    measure(group, mpi, num_bytes);
}

int run_forked(int size) {
  const FileDescriptor memory = create_group_memory(size);
  for (int rank = 0; rank < size; ++rank)
    if (fork() == 0) {
      measure_all(*shared_memory_group(memory.number(), rank), nullptr);
      _exit(0);
    }
  int failures = 0, status = 0;
  while (wait(&status) > 0) failures += status != 0;
  return failures;
}

// Processes that find each other as those of several hosts do, here at sockets of this one.
int run_ring(int size) {
  std::string addresses;
  for (int rank = 0; rank < size; ++rank) addresses += str(rank > 0 ? ", " : "", "\"localhost:", 40'000 + rank, '"');
  for (int rank = 0; rank < size; ++rank)
    if (fork() == 0) {
      const cluster::Environment environment(cluster::Environment::Variables{
          {"TF_CONFIG", str("{\"cluster\": {\"worker\": [", addresses,
                            "]}, \"task\": {\"type\": \"worker\", \"index\": ", rank, "}}")}});
      const auto cluster = cluster::Cluster::join({}, environment);
      measure_all(*cluster_group(*cluster, {.way = ClusterGroupOptions::Way::ring}), nullptr);
      cluster->barrier("end");
      _exit(0);
    }
  int failures = 0, status = 0;
  while (wait(&status) > 0) failures += status != 0;
  return failures;
}

#ifdef TUTTI_MPI
int run_in_mpi(bool by_mpi) {
  int rank = 0, size = 0, level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const AllReduceInPlace theirs = [](float* values, size_t count) {
    MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  };
  if (by_mpi) {
    const auto cluster = cluster::Cluster::join();
    measure_all(*cluster_group(*cluster, {.way = ClusterGroupOptions::Way::mpi}), theirs);
  } else {
    const FileDescriptor made = rank == 0 ? create_group_memory(size) : FileDescriptor();
    int place[2] = {getpid(), made.number()};
    MPI_Bcast(place, 2, MPI_INT, 0, MPI_COMM_WORLD);
    const FileDescriptor memory(open(str("/proc/", place[0], "/fd/", place[1]).c_str(), O_RDWR | O_CLOEXEC));
    measure_all(*shared_memory_group(memory.number(), rank), theirs);
  }
  MPI_Finalize();
  return 0;
}
#endif

}  // namespace
}  // namespace tutti::benchmarks

int main(int argc, char** argv) {
#ifdef TUTTI_MPI
  if (std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE")) return tutti::benchmarks::run_in_mpi(argc > 1);
#endif
  if (argc > 2) return tutti::benchmarks::run_ring(std::atoi(argv[1]));
  return tutti::benchmarks::run_forked(argc > 1 ? std::atoi(argv[1]) : 2);
}
