#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/mesh/mesh.h"

namespace tutti {

// The entry of a layout for an axis that no mesh dimension splits.
inline constexpr const char* kUnsharded = "unsharded";

// A set of mesh dimensions, one bit each.
using DimensionMask = uint32_t;

// Where the values of a tensor lie: for each axis the mesh dimension that splits it or kUnsharded, and the mesh
// dimensions over which the devices hold terms of a sum not yet taken. An axis of size n on a dimension of size k is
// cut in pieces of ceil(n / k); the last pieces may be shorter or empty. An immutable value. TF:
// tf.experimental.dtensor.Layout.
class Layout {
 public:
  // Throws not_found for an unknown mesh dimension, invalid_argument for one that is used twice.
  Layout(const std::vector<std::string>& axes, Mesh mesh, const std::vector<std::string>& unreduced = {});

  static Layout replicated(const Mesh& mesh, int rank);
  // Axis 0 split over `dimension`, the rest whole.
  static Layout batch_sharded(const Mesh& mesh, const std::string& dimension, int rank);

  const Mesh& mesh() const { return mesh_; }
  int rank() const { return static_cast<int>(axes_.size()); }
  // The mesh dimension that splits an axis, -1 for none.
  int dimension_of(int axis) const { return axes_[static_cast<size_t>(axis)]; }
  const std::vector<int>& axes() const { return axes_; }
  DimensionMask unreduced() const { return unreduced_; }
  bool is_replicated() const;

  bool operator==(const Layout&) const = default;

  // "[batch, unsharded]", "[unsharded] unreduced={batch}"
  std::string to_string() const;

 private:
  // The mesh first: two names in braces are also a pair of iterators over a vector<int>.
  Layout(Mesh mesh, std::vector<int> axes) : axes_(std::move(axes)), mesh_(std::move(mesh)) {}

  std::vector<int> axes_;
  DimensionMask unreduced_ = 0;
  Mesh mesh_;
};

}  // namespace tutti
