#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tutti/tensor/piece_copies.h"
#include "tutti/tensor/relayout.h"
#include "tutti/tensor/spec.h"

namespace c10 {
class OperatorHandle;
}

namespace tutti {

struct OperatorInfo;

// How the results of calls that worked on parts of one axis become the result for the whole axis. Of booleans, `any` is
// their maximum and `all` their minimum.
enum class Combination : uint8_t { sum, product, maximum, minimum };

// The part of an axis that a call works on.
struct AxisPiece {
  int64_t begin, length;
  int64_t size;  // of the whole axis
};

// Thrown to the planner by what rules call: a rule does not fit the operands' ranks or sizes. Either the op does not
// take them, or it has no sharded form for them.
struct NoShardedForm {};

// How an op runs on operands of given layouts: one local call for each coordinate of the mesh dimensions in `calls`.
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
    std::vector<c10::SmallVector<Index, 8>> terms = {};  // for each component the calls whose results it is made of
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
  Accumulate accumulate = nullptr;  // for an op with one result that can take its sum while it is called
  Merge merge = nullptr;            // for results that can only be combined together
  LocalCall local_call = nullptr;
  std::vector<AxisPiece> piece_of_call;  // for local_call
  std::optional<int> contiguous;         // an argument whose pieces the kernel must get contiguous
  bool channels_last = false;            // or channels-last
  std::vector<bool> idle;                // calls that would work on an empty part of a combined axis are not made
  std::vector<Index> first_term;         // for each call the first of those whose terms are combined with its own

  // Whether what a call returns has gone into the results of the first of its terms.
  bool takes_terms_early() const { return accumulate || merge; }
};

// What a rule sees of a call, and where it says how the call is made on shards. A rule returns false where it has no
// sharded form for these layouts. Arguments are numbered as in the op's schema; negative axes are the rule's to
// resolve.
class Planner {
 public:
  Planner(const OperatorInfo& info, const MeshShape* shape, at::ArrayRef<at::IValue> arguments);

  const OperatorInfo& info() const { return info_; }
  const MeshShape& mesh() const { return *shape_; }

  // Of a tensor argument; null where it is absent.
  const Spec* spec(int argument) const;
  // Of the tensors of a list argument.
  c10::SmallVector<const Spec*, 4> specs(int argument) const;
  // Whether a tensor of a list argument is a mask (bool, uint8), where indices may be.
  bool is_mask(int argument, int item) const;
  int num_arguments() const { return static_cast<int>(arguments_.size()); }
  const at::IValue& argument(int position) const { return arguments_[static_cast<size_t>(position)]; }
  bool is_none(int argument) const { return arguments_[static_cast<size_t>(argument)].isNone(); }
  bool is_list(int argument) const;
  bool is_integer(int argument) const { return arguments_[static_cast<size_t>(argument)].isInt(); }
  bool is_boolean(int argument) const { return arguments_[static_cast<size_t>(argument)].isBool(); }
  int64_t integer(int argument) const { return arguments_[static_cast<size_t>(argument)].toInt(); }
  bool boolean(int argument) const { return arguments_[static_cast<size_t>(argument)].toBool(); }
  // An axis argument, made non-negative for a tensor of `rank`. Throws: c10::IndexError as LibTorch does;
  // NoShardedForm for a tensor without axes.
  int axis(int argument, int64_t rank) const;
  // Integers of a list; empty for none.
  at::DimVector integers(int argument) const;

  // Asks for an operand in this layout. Sums of terms are taken first.
  void operand(int argument, AxisMap axes) { item(argument, -1, std::move(axes)); }
  void item(int argument, int item, AxisMap axes);
  // The layout asked for an operand. Requires operand() or item() for it.
  const AxisMap& axes_of(int argument, int item = -1) const;
  // The next result, in schema order. `sizes`: global, of the axes that are sharded; of others anything. `parts`: over
  // these mesh dimensions the calls give terms of a sum, factors of a product, …
  void result(AxisMap axes, at::DimVector sizes, DimensionMask parts = 0, Combination combination = Combination::sum);
  // Of a replicated result.
  void result(int64_t rank) { result(unsharded(rank), at::DimVector(static_cast<size_t>(rank), -1)); }
  // The next result, which has a piece for each call along `dimension` and means something to LibTorch's kernels alone.
  void opaque_result(int8_t dimension);
  // Where an axis of a result is longer or shorter than the operands' axis of its letter.
  void result_size(int result, int axis, int64_t size) { sizes_of(result)[static_cast<size_t>(axis)] = size; }
  // How a call may add to the result of an earlier one, where the result is a sum: no buffer per term is needed then.
  void accumulate(Plan::Accumulate function) { plan_.accumulate = function; }
  // The mesh dimensions over which the first result is combined.
  DimensionMask parts_of_first_result() const { return plan_.results.front().parts; }
  const at::DimVector& sizes_of_first_result() const { return plan_.results.front().sizes; }
  // How the results of calls that worked on parts are combined where that takes all results of a call together.
  void merge(Plan::Merge function);
  // In separate buffers, calls `function` in the place of the op, for it must know which part of an axis of an operand
  // it works on: of an axis of `size` that `dimension` cuts. No effect where the axis is whole (dimension -1).
  void local_call(Plan::LocalCall function, int8_t dimension, int64_t size);
  // The same for an axis of an operand, in the layout asked for.
  void local_call(Plan::LocalCall function, int argument, int axis);
  // The calls get contiguous pieces of an operand: for kernels that insist, where LibTorch sees to it for the whole.
  // `channels_last`: these are taken too.
  void contiguous(int argument, bool channels_last = false) {
    plan_.contiguous = argument;
    plan_.channels_last = channels_last;
  }
  // For an argument that gives the global sizes of a tensor, the calls get its local sizes in this layout.
  void local_sizes(int argument, const AxisMap& axes, at::IntArrayRef sizes);
  // The same for an argument that is the size of one axis.
  void local_size(int argument, int8_t dimension, int64_t size);

  // Ends planning. Where the rule said no, or would move what the op writes, the plan gathers.
  Plan finish(bool sharded);

 private:
  void want_all_gathered();
  void check_all_named() const;
  void join_parts();
  void find_idle_calls();
  void find_terms();
  void find_lengths();
  at::DimVector& sizes_of(int result) { return plan_.results[static_cast<size_t>(result)].sizes; }

  struct Wanted {
    int argument;
    int item;
    const Spec* from;
    const Spec* to;
    const Spec* joined;  // what the calls get of it: `to`, unless parts are joined
  };
  const OperatorInfo& info_;
  const MeshShape* shape_;
  at::ArrayRef<at::IValue> arguments_;
  std::vector<Wanted> wanted_;
  struct Sizes {
    int argument;
    const Spec* spec;
    bool is_list;
  };
  std::vector<Sizes> sizes_;
  const Spec* piece_ = nullptr;  // of the axis that local_call names
  Plan plan_;
};

using Rule = bool (*)(Planner&);
// Rewrites a call, in separate buffers, as other ops on the same mesh tensors. `arguments` are the call's; returns its
// results, or nothing where it has no such form.
using Decomposition = std::optional<std::vector<at::IValue>> (*)(at::ArrayRef<at::IValue> arguments);

// The plans of one op, found by layouts, sizes and integer arguments; floating point arguments do not tell plans apart.
class PlanCache {
 public:
  using Key = c10::SmallVector<int64_t, 32>;
  static Key key_of(at::ArrayRef<at::IValue> arguments);

  template <class Make>
  std::shared_ptr<const Plan> find_or_make(const Key& key, Make make) {
    if (auto plan = find(key)) return plan;
    return insert(key, std::make_shared<const Plan>(make()));
  }

 private:
  static constexpr size_t kMaxPlans = 256;
  std::shared_ptr<const Plan> find(const Key& key);
  std::shared_ptr<const Plan> insert(const Key& key, std::shared_ptr<const Plan> plan);

  struct Entry {
    Key key;
    std::shared_ptr<const Plan> plan;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;  // guarded by mutex_
  size_t last_ = 0;             // guarded by mutex_; where the last look-up ended, or the next victim
};

}  // namespace tutti
