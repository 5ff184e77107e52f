#pragma once

#include <cstdint>
#include <vector>

#include "tutti/mesh/layout.h"

namespace tutti {

// What a Layout says, by the numbers of axes and mesh dimensions: {layout.axes(), layout.unreduced()}.
struct Placement {
  std::vector<int> axes;        // for each axis the mesh dimension that splits it, or -1
  DimensionMask unreduced = 0;  // mesh dimensions over which devices hold terms of a sum

  bool operator==(const Placement&) const = default;
};

// What the devices of one or more mesh dimensions do together to change a placement.
enum class RedistributionKind {
  all_reduce,      // terms become their sum, on each device
  reduce_scatter,  // terms become their sum, of which each device gets a piece
  all_gather,      // the pieces of an axis become the whole axis, on each device
  all_to_all,      // the pieces of one axis become pieces of another
  slice,           // each device keeps a piece of what it has: nothing is sent
};

// "all_reduce"
const char* to_string(RedistributionKind kind);

struct RedistributionStep {
  RedistributionKind kind;
  DimensionMask dimensions;  // one; for an all_reduce one or more
  int from_axis;             // that was split: all_gather, all_to_all; else -1
  int to_axis;               // that is split now: reduce_scatter, all_to_all, slice; else -1
  Placement after;
  // How many elements devices receive from each other, all devices of the mesh together. A device receives what it
  // lacks of its new piece; in a reduce_scatter over k devices k - 1 terms of it; an all_reduce is a reduce_scatter of
  // the value, as a flat list, and an all_gather.
  int64_t elements;
  // How many elements the first device puts in (all_reduce, reduce_scatter, all_to_all) or gets out (all_gather,
  // slice).
  int64_t buffer;
};

// The steps from one placement of a value to another with the fewest elements received, and of those the fewest steps;
// always the same ones. `mesh` and `sizes` are of the mesh's dimensions and of the value's axes; pieces are of
// ceil(n / k) elements, the last shorter or empty. Mesh dimensions and axes that neither placement uses serve too:
// copies of a value can share the work. Exact for what 8192 placements are enough to decide, which is all on meshes of
// up to 4 dimensions and values of up to 8 axes; beyond that at worst: sum, slice what can be sliced, gather, slice.
// Throws: invalid_argument for placements of another rank than the value's, a dimension that the mesh lacks or a
// placement uses twice, or one over which `to` has terms of a sum and `from` has none.
std::vector<RedistributionStep> plan_redistribution(const std::vector<int64_t>& mesh, const Placement& from,
                                                    const Placement& to, const std::vector<int64_t>& sizes);

// Of all steps together.
int64_t elements_received(const std::vector<RedistributionStep>& steps);

}  // namespace tutti
