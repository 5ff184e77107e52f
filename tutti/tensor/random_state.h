#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/tensor/random_seed.h"

namespace tutti {

class Processes;

// The random numbers of one strategy's replicas: a generator for each, which set_random_seed() seeds anew. One replica
// draws from LibTorch's own generators, as the program without a strategy does. With `processes` these are the replicas
// here of as many in each process, and a replica has the numbers that it would have in one process.
class ReplicaGenerators {
 public:
  explicit ReplicaGenerators(std::vector<c10::Device> devices, std::shared_ptr<Processes> processes = {});
  ~ReplicaGenerators();
  ReplicaGenerators(const ReplicaGenerators&) = delete;
  ReplicaGenerators& operator=(const ReplicaGenerators&) = delete;

  // To be called before the replicas draw.
  void follow_seed();
  // To be called after the replicas drew: warns, once, if torch::manual_seed was called meanwhile.
  void check_seed();
  // Null for one replica.
  at::Generator* of(int replica);

 private:
  friend Tensor random_state();
  friend void restore_random_state(const Tensor& state);

  bool is_one_replica() const { return devices_.size() == 1 && !processes_; }
  size_t first_replica() const;

  std::vector<c10::Device> devices_;
  std::shared_ptr<Processes> processes_;
  std::vector<at::Generator> generators_;
  std::vector<RandomSeed> seeded_;  // empty or one: what the generators were made from
  bool warned_ = false;
};

// Where all random numbers are: LibTorch's default generators of the CPU and of each GPU, and those of each strategy's
// replicas, in the order in which the strategies of several replicas were made. uint8 [bytes]. No replica may be
// running. Of several processes: the chief's default generators, and those of all replicas; every process calls.
Tensor random_state();
// Puts them back. A replica or a strategy beyond those that were saved keeps its numbers. Where a replica was on a GPU
// and is now on a CPU, or the other way about, its numbers are others, and the same at each such restore. Throws:
// data_loss.
void restore_random_state(const Tensor& state);

}  // namespace tutti
