#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace tutti {

// How bytes travel between processes. TF: tf.distribute.experimental.CommunicationImplementation.
enum class CommunicationImplementation {
  auto_,          // shared_memory where all processes are on one host, else ring
  shared_memory,  // all processes are on one host
  ring,           // over gRPC
  nccl,  // what lies in the memory of GPUs by NVIDIA's libnccl.so.2, to one GPU of each process; the rest as auto_
  mpi,   // of processes that mpirun started; needs the module libtutti_mpi.so
};

// TF: tf.distribute.experimental.CommunicationOptions.
struct CommunicationOptions {
  // Gradients travel in packs, each closed as soon as it holds more than this; 0: one pack of all of a dtype.
  int64_t bytes_per_pack = 0;
  // How long a process waits for the others, in every collective; default: 300 s.
  std::optional<std::chrono::milliseconds> timeout = {};
  CommunicationImplementation implementation = CommunicationImplementation::auto_;
  bool operator==(const CommunicationOptions&) const = default;
};

}  // namespace tutti
