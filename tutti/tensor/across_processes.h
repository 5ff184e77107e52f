#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <source_location>
#include <span>
#include <vector>

#include "tutti/collectives/processes.h"
#include "tutti/mesh/mesh.h"
#include "tutti/tensor/sum_buffers.h"

// Tensors of the processes that train together. Each call is made by all of them, in the same order.
namespace tutti {

struct MeshShape;

// Makes a mesh one that every process has a copy of: what replicas leave for its values is aggregated over the replicas
// of all processes. Such a mesh has a name of its own, so that it is no other strategy's.
void set_processes(const Mesh& mesh, const std::shared_ptr<Processes>& processes);
// Null for a mesh of this process alone.
std::shared_ptr<Processes> processes_of(const MeshShape& shape);

// Memory in which sums travel; who keeps it from call to call spares its allocation, unless a result is still used.
struct SumPacks {
  std::vector<Tensor> packs;
  SumLists lists;
  int64_t regroupings = 0;  // Processes::num_regroupings() when they were made
};

// What of sums has to be as it was when a function was recorded: all, or which are zero.
enum class SameSums { all, zeros };

// Replaces each number by its sum over the processes. In a recorded function each replay takes the sums anew, and
// throws failed_precondition where they are not the `same`: what the function does was decided by them. Throws: as
// Processes::sum.
void sum_numbers(const std::shared_ptr<Processes>& processes, std::span<int64_t> numbers, const char* name,
                 SameSums same = SameSums::all, std::source_location where = std::source_location::current());

// Sets the result of each item to the sum over the values here and those of the items in the same place in all
// processes, in the order of the ranks, divided by the divisor: bit for bit the same everywhere. Sums are taken
// straight into the packs that travel, and results lie there. An item that is whole is its first value. Throws:
// unimplemented for a dtype that groups do not sum, and for sparse values in a recorded function, in which each replay
// takes the sums anew; as Processes::run.
void sum_over_processes(const std::shared_ptr<Processes>& processes, std::span<BufferSum> items, int64_t bytes_per_pack,
                        const char* name, const ParallelCall& parallel, SumPacks& packs,
                        std::source_location where = std::source_location::current());

// The tensors of each process, by rank, dense and on the CPU: as many of any shapes and dtypes, undefined ones too.
std::vector<std::vector<Tensor>> gather_tensors(Processes& processes, std::span<const Tensor> own, const char* name,
                                                std::source_location where = std::source_location::current());
// Overwrites plain dense tensors by those of the chief, of equal shapes and dtypes.
void broadcast_tensors(Processes& processes, std::span<const Tensor> tensors, const char* name,
                       std::source_location where = std::source_location::current());

}  // namespace tutti
