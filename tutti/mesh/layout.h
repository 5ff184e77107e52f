#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/mesh/mesh.h"

namespace tutti {

// The entry of a layout for an axis that no mesh dimension splits.
inline constexpr const char* kUnsharded = "unsharded";
// In the target of a relayout: the axis keeps the entry of the tensor's layout. TF: dtensor.MATCH.
inline constexpr const char* kMatch = "match";

// A set of mesh dimensions, one bit each.
using DimensionMask = uint32_t;

// Where the values of a tensor lie: for each axis the mesh dimension that splits it or kUnsharded, and the mesh
// dimensions over which the devices hold terms of a sum not yet taken. An axis of size n on a dimension of size k is
// cut in pieces of ceil(n / k); the last pieces may be shorter or empty. An immutable value. TF:
// tf.experimental.dtensor.Layout.
class Layout {
 public:
  using Shape = std::vector<int64_t>;
  static constexpr int kUnshardedAxis = -1;
  static constexpr int kMatchedAxis = -2;

  // Throws invalid_argument for an unknown mesh dimension, or one that is used twice.
  Layout(const std::vector<std::string>& axes, Mesh mesh, const std::vector<std::string>& unreduced = {});

  static Layout replicated(const Mesh& mesh, int rank);
  // One axis split over `dimension`, the rest whole: `axis`, or the last one. Throws invalid_argument for an unknown
  // dimension, or an axis that is not in [0, rank).
  static Layout batch_sharded(const Mesh& mesh, const std::string& dimension, int rank, int axis = 0);
  static Layout inner_sharded(const Mesh& mesh, const std::string& dimension, int rank);

  // Reads TensorFlow's text, as serialize() writes it. Throws: invalid_argument, naming the place; as Mesh::parse.
  static Layout parse(std::string_view text, MeshOptions options = {});
  // "sharding_specs:x,unsharded, mesh:…" with Mesh::serialize's text. Sums not yet taken, of which TensorFlow's text
  // knows nothing, stand before the mesh: "sharding_specs:unsharded, unreduced:x,y, mesh:…". TF: Layout.to_string.
  std::string serialize() const;

  const Mesh& mesh() const { return mesh_; }
  int rank() const { return static_cast<int>(axes_.size()); }
  // The mesh dimension that splits an axis, kUnshardedAxis or kMatchedAxis.
  int dimension_of(int axis) const { return axes_[static_cast<size_t>(axis)]; }
  const std::vector<int>& axes() const { return axes_; }
  DimensionMask unreduced() const { return unreduced_; }
  // The entries, as the constructor takes them.
  std::vector<std::string> sharding_specs() const;
  bool is_replicated() const;
  // Whether axis 0 is split, and nothing else.
  bool is_batch_parallel() const;
  bool has_match() const;

  // Without these axes; a negative one counts from the end. Throws out_of_range, invalid_argument for one named twice.
  // TF: Layout.delete.
  Layout delete_axes(const std::vector<int>& axes) const;
  // With the entries of `source`, of equal rank, where this says kMatch. Throws invalid_argument for another rank or
  // mesh, or a dimension that is then there twice.
  Layout matched(const Layout& source) const;

  // In how many pieces an axis is cut. Throws out_of_range.
  int64_t num_shards(int axis) const;
  // The pieces' shape and first index, of a device and of a tensor of `global_shape`. Throws invalid_argument for a
  // shape of another rank or with a negative size; out_of_range for a device.
  Shape local_shape_from_global_shape(const Shape& global_shape, int64_t device = 0) const;
  Shape local_offset(const Shape& global_shape, int64_t device) const;
  // The shape of a tensor whose pieces all have `local_shape`. Throws invalid_argument for another rank, or a size that
  // 64 bits do not hold.
  Shape global_shape_from_local_shape(const Shape& local_shape) const;
  // The same of pieces that may differ, one for each device. Throws invalid_argument, naming the device, for another
  // number of shapes, another rank, or pieces that are not those of any tensor in this layout.
  Shape global_shape_from_local_shapes(const std::vector<Shape>& local_shapes) const;
  // For each device the index of its piece along each axis. TF: Layout.offset_to_shard.
  std::vector<Shape> offset_to_shard() const;

  bool operator==(const Layout&) const = default;

  // "[batch, unsharded]", "[unsharded] unreduced={batch}", for messages
  std::string to_string() const;

 private:
  // The mesh first: two names in braces are also a pair of iterators over a vector<int>.
  Layout(Mesh mesh, std::vector<int> axes) : axes_(std::move(axes)), mesh_(mesh) {}
  void check_shape(const char* function, const Shape& shape) const;
  std::vector<std::string> unreduced_names() const;

  std::vector<int> axes_;
  DimensionMask unreduced_ = 0;
  Mesh mesh_;
};

}  // namespace tutti
