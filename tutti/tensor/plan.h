#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <vector>

#include "tutti/tensor/piece_copies.h"
#include "tutti/tensor/relayout.h"
#include "tutti/tensor/result_geometries.h"
#include "tutti/tensor/spec.h"

namespace c10 {
class OperatorHandle;
}

namespace tutti {

// How the results of calls that worked on parts of one axis become the result for the whole axis. Of booleans, `any` is
// their maximum and `all` their minimum.
enum class Combination : uint8_t { sum, product, maximum, minimum };

// The part of an axis that a call works on.
struct AxisPiece {
  int64_t begin, length;
  int64_t size;  // of the whole axis
};

// How an op runs on operands of given layouts: one local call for each coordinate of the mesh dimensions in `calls`. Of
// a mesh that is divided among processes each makes its own of them.
struct Plan {
  using Index = uint16_t;  // of a component or a call: a mesh has at most Mesh::kMaxDevices devices

  struct Operand {
    int argument;
    int item;  // of a list argument; -1: the argument is the tensor
    std::optional<Relayout> relayout;
    std::optional<PieceCopies> join;  // after that: along dimensions over which results would have to be combined
    c10::SmallVector<Index, 8> component_of_call;
  };
  // Stands in a call for an argument that speaks of global sizes.
  struct Patch {
    int argument;
    std::vector<at::IValue> value_of_call;
  };
  struct Result {
    AxisMap axes;
    at::DimVector sizes;            // global, of the axes that are sharded; -1: as in the pieces
    DimensionMask parts;            // mesh dimensions over which the calls' results are to be combined
    Combination combination;        // how
    CommunicationCounter* counter;  // of the combination; null for none
    bool opaque = false;            // pieces of any sizes, which only ops with a rule for them read
    // For each component the calls whose results it is made of; none where it is in another process.
    std::vector<c10::SmallVector<Index, 8>> terms = {};
    std::vector<int64_t> lengths = {};        // for each component those of its axes; -1 of those not sharded
    mutable const Spec* last_spec = nullptr;  // of the sizes that came last; read and written as an atomic
  };

  // Adds the term of a call with these arguments to `sum`, the result of an earlier call.
  using Accumulate = void (*)(const Tensor& sum, at::ArrayRef<at::IValue> arguments);
  // Stands in the place of the op: takes the arguments of one call from the stack and leaves the op's results there.
  using LocalCall = void (*)(const c10::OperatorHandle& op, torch::jit::Stack& call, const AxisPiece& piece);
  // Combines all results of one call with those of another, which worked on a later part, in place.
  using Merge = void (*)(at::ArrayRef<Tensor> results, at::ArrayRef<Tensor> later);

  bool gathers = false;  // no sharded form: the op runs once on gathered operands
  DimensionMask calls = 0;
  int num_calls = 1;
  std::vector<Operand> operands;
  std::vector<Patch> patches;
  std::vector<Result> results;
  ResultGeometries geometries;      // of separate buffers
  Accumulate accumulate = nullptr;  // for an op with one result that can take its sum while it is called
  Merge merge = nullptr;            // for results that can only be combined together
  LocalCall local_call = nullptr;
  std::vector<AxisPiece> piece_of_call;  // for local_call
  std::vector<int> contiguous;           // arguments whose pieces the kernel must get contiguous
  bool channels_last = false;            // or channels-last
  std::vector<bool> idle;                // calls that would work on an empty part of a combined axis are not made
  std::vector<bool> is_made;             // for each call: whether it is made, and by this process
  bool is_combined_across = false;       // results are made of calls of several processes
  std::vector<Index> first_term;         // for each call the first of those whose terms are combined with its own

  // Whether what a call returns has gone into the results of the first of its terms.
  bool takes_terms_early() const { return accumulate || merge; }
};

}  // namespace tutti
