#pragma once

#include <ATen/core/DimVector.h>
#include <c10/core/Device.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string>

#include "tutti/mesh/layout.h"
#include "tutti/tensor/replica_clock.h"

namespace tutti {

// For each axis of a tensor the mesh dimension that splits it, or -1.
using AxisMap = c10::SmallVector<int8_t, 8>;

AxisMap unsharded(int64_t rank);

// The arithmetic of one mesh: sizes, coordinates, and where its values are stored. One per mesh, never freed.
struct MeshShape {
  explicit MeshShape(const Mesh& mesh);
  static const MeshShape* of(const Mesh& mesh);

  Mesh mesh;
  int num_dimensions;
  c10::SmallVector<int64_t, 4> sizes;
  DimensionMask all;
  bool one_buffer_when_replicated;
  c10::SmallVector<c10::Device, 8> devices;  // of the replicas
  c10::Device home;                          // of the buffer, where there is one
  mutable ReplicaClock clock;

  // How many coordinates the dimensions in `mask` have together. Components are numbered by these, row-major.
  int count(DimensionMask mask) const;
  // The coordinate along `dimension` of the component `index` out of those numbered by `mask`; 0 if not in the mask.
  int coordinate(int index, DimensionMask mask, int dimension) const;
  // Where the component `index` of the numbering `from` falls in the coarser or other numbering `to`.
  int project(int index, DimensionMask from, DimensionMask to) const;
  // The dimensions for whose coordinates a value of this layout is stored apart: none where buffers are merged, those
  // that tell values apart where memory is shared, else all.
  DimensionMask stored(const AxisMap& axes, DimensionMask unreduced) const;
  // "batch", "batch+model"
  std::string names(DimensionMask mask) const;
  bool merged() const { return mesh.shares_memory() && mesh.options().merge; }
};

// The layout and the global sizes of a mesh tensor. Interned: equal specs have one address, and are never freed.
struct Spec {
  const MeshShape* shape;
  AxisMap axes;
  DimensionMask unreduced;
  at::DimVector sizes;

  DimensionMask stored;
  int num_components;
  int64_t numel;

  int rank() const { return static_cast<int>(sizes.size()); }
  DimensionMask sharded() const;
  bool replicated() const { return !sharded() && !unreduced; }
  // First index and extent along `axis` that a component holds.
  int64_t begin(int component, int axis) const;
  int64_t length(int component, int axis) const;
  // Where a component lies; where memory is shared, that is one place for all.
  c10::Device device_of(int component) const;
  Layout layout() const;
};

// Dense strides for `sizes`, with the axes in the order in which a piece of a value laid out as `spec` has them in
// memory: of the whole value, for its sizes. Where the piece repeats an axis (stride 0) that is not cut, it stays
// repeated.
at::DimVector strides_like(at::IntArrayRef sizes, const Spec& spec, at::IntArrayRef piece_sizes,
                           at::IntArrayRef piece_strides);

// With merged buffers sums are always taken, so `unreduced` is dropped.
const Spec* intern(const MeshShape* shape, const AxisMap& axes, DimensionMask unreduced, at::IntArrayRef sizes);
// A spec as a number, which a graph can hold; null is 0.
inline int64_t address_of(const Spec* spec) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(spec)); }
inline const Spec* spec_at(int64_t address) { return reinterpret_cast<const Spec*>(static_cast<uintptr_t>(address)); }

inline const Spec* intern_replicated(const MeshShape* shape, at::IntArrayRef sizes) {
  return intern(shape, unsharded(static_cast<int64_t>(sizes.size())), 0, sizes);
}

// What a tensor of these sizes is in a layout. Throws: invalid_argument, with the name of the function, for a layout of
// another rank, or with kMatch.
const Spec* spec_of(const char* function, const Layout& layout, at::IntArrayRef sizes);

}  // namespace tutti
