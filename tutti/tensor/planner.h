#pragma once

#include <optional>
#include <vector>

#include "tutti/tensor/plan.h"

namespace tutti {

struct OperatorInfo;

// Thrown to the planner by what rules call: a rule does not fit the operands' ranks or sizes. Either the op does not
// take them, or it has no sharded form for them.
struct NoShardedForm {};

// Makes the plan of a call: a pure function of the op, of the layouts and sizes of the operands and of the arguments
// that are no floating point numbers. No tensor's elements are looked at.
//
// For example, on a mesh of x = 2, y = 2 in separate buffers mm multiplies a [4, 6] laid out ("x", "y") by a [6, 2]
// laid out ("y", unsharded). Four calls, one for each coordinate (x, y), multiply piece (x, y) of the first by piece y
// of the second. The result is laid out ("x", unsharded): its component x is the sum of two terms, of the calls (x, 0)
// and (x, 1), which worked on parts of the axis that it lacks.
//
// The planner is what a rule sees of a call, and where it says how the call is made on pieces. A rule returns false
// where it has no sharded form for these layouts. Arguments are numbered as in the op's schema; negative axes are the
// rule's to resolve.
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
    plan_.contiguous.push_back(argument);
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
  bool writes_in_parts() const;
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

}  // namespace tutti
