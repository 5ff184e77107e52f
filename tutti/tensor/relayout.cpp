#include "tutti/tensor/relayout.h"

#include <ATen/ops/cat.h>

#include "tutti/collectives/communications.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/sum_buffers.h"

namespace tutti {
namespace {

// The device of component `index`; where memory is shared, the only one there is.
c10::Device component_device(const Spec* spec, int index) {
  const MeshShape& shape = *spec->shape;
  return shape.mesh.shares_memory() ? shape.home : shape.devices[static_cast<size_t>(index)];
}

// What component `index` of the result is made of: the components that differ from it along the stage's dimensions
// alone.
c10::SmallVector<Tensor, 8> sources(const RelayoutStage& stage, const Components& in, int index) {
  const c10::Device device = component_device(stage.to, index);
  const MeshShape& shape = *stage.from->shape;
  const DimensionMask rest = stage.to->stored & ~stage.dimensions;
  const int wanted = shape.project(index, stage.to->stored, rest);
  c10::SmallVector<Tensor, 8> found;
  for (int i = 0; i < stage.from->num_components; ++i)
    if (shape.project(i, stage.from->stored, rest) == wanted) found.push_back(in[static_cast<size_t>(i)].to(device));
  return found;
}

Tensor sum_of(const RelayoutStage& stage, const Components& in, int index) {
  BufferSum sum{.values = sources(stage, in, index)};
  sum_buffers({&sum, 1});
  return sum.result;
}

Tensor joined(const RelayoutStage& stage, const Components& in, int index) {
  const auto pieces = sources(stage, in, index);
  return at::cat(at::TensorList(pieces.data(), pieces.size()), stage.axis);
}

Tensor sliced(const RelayoutStage& stage, const Components& in, int index) {
  const MeshShape& shape = *stage.from->shape;
  const DimensionMask common = stage.from->stored & stage.to->stored;
  const int wanted = shape.project(index, stage.to->stored, common);
  int source = 0;
  while (shape.project(source, stage.from->stored, common) != wanted) ++source;
  return in[static_cast<size_t>(source)].narrow(stage.axis, stage.to->begin(index, stage.axis),
                                                stage.to->length(index, stage.axis));
}

const char* name_of(RelayoutStage::Kind kind) {
  return kind == RelayoutStage::Kind::all_reduce ? "all_reduce" : "all_gather";
}

}  // namespace

Relayout::Relayout(const Spec* from, const Spec* to, const std::string& cause, Asked asked) : from(from), to(to) {
  if (to->unreduced & ~from->unreduced)
    throw Error(ErrorCode::invalid_argument, str(cause, ": from layout ", from->layout().to_string(), " to ",
                                                 to->layout().to_string(), ": a value cannot be made a sum of terms"));
  const MeshShape* shape = from->shape;
  const Spec* now = from;
  const auto step = [&](RelayoutStage::Kind kind, DimensionMask dimensions, int axis, const AxisMap& axes,
                        DimensionMask unreduced) {
    const Spec* next = intern(shape, axes, unreduced, from->sizes);
    auto* counter = kind == RelayoutStage::Kind::slice
                        ? nullptr
                        : &communication_counter({.op = name_of(kind),
                                                  .mesh_dimension = shape->names(dimensions),
                                                  .cause = cause,
                                                  .implied = asked == Asked::implied,
                                                  .free = shape->merged()});
    stages.push_back({kind, dimensions, axis, now, next, counter});
    now = next;
  };
  if (const DimensionMask sum = from->unreduced & ~to->unreduced)
    step(RelayoutStage::Kind::all_reduce, sum, -1, from->axes, to->unreduced);
  for (size_t axis = 0; axis < to->axes.size(); ++axis) {
    const int8_t dimension = now->axes[axis];
    if (dimension < 0 || dimension == to->axes[axis]) continue;
    AxisMap axes = now->axes;
    axes[axis] = -1;
    step(RelayoutStage::Kind::all_gather, DimensionMask{1} << dimension, static_cast<int>(axis), axes, now->unreduced);
  }
  for (size_t axis = 0; axis < to->axes.size(); ++axis) {
    if (now->axes[axis] == to->axes[axis]) continue;
    AxisMap axes = now->axes;
    axes[axis] = to->axes[axis];
    step(RelayoutStage::Kind::slice, DimensionMask{1} << to->axes[axis], static_cast<int>(axis), axes, now->unreduced);
  }
}

void Relayout::record(size_t element_bytes) const {
  for (const RelayoutStage& stage : stages)
    if (stage.counter) stage.counter->record(stage.from->numel * static_cast<int64_t>(element_bytes));
}

Components Relayout::run(const Components& components) const {
  record(components[0].element_size());
  if (from->shape->merged()) return components;  // one buffer before and after: the layout is metadata
  Components now = components;
  for (const RelayoutStage& stage : stages) {
    Components next;
    for (int i = 0; i < stage.to->num_components; ++i) {
      switch (stage.kind) {
        case RelayoutStage::Kind::all_reduce: next.push_back(sum_of(stage, now, i)); break;
        case RelayoutStage::Kind::all_gather: next.push_back(joined(stage, now, i)); break;
        case RelayoutStage::Kind::slice: next.push_back(sliced(stage, now, i)); break;
      }
    }
    now = std::move(next);
  }
  return now;
}

Components cut(const Tensor& value, const Spec* spec) {
  Components pieces;
  for (int i = 0; i < spec->num_components; ++i) {
    Tensor piece = value;
    for (int axis = 0; axis < spec->rank(); ++axis)
      if (spec->length(i, axis) != spec->sizes[static_cast<size_t>(axis)])
        piece = piece.narrow(axis, spec->begin(i, axis), spec->length(i, axis));
    pieces.push_back(piece.to(component_device(spec, i)));
  }
  return pieces;
}

Components replica_pieces(const Spec* spec, const Components& components) {
  const MeshShape& shape = *spec->shape;
  Components pieces;
  for (int device = 0; device < static_cast<int>(shape.mesh.num_devices()); ++device) {
    Tensor piece = components[static_cast<size_t>(shape.project(device, shape.all, spec->stored))];
    for (int axis = 0; axis < spec->rank(); ++axis) {
      const int d = spec->axes[static_cast<size_t>(axis)];
      if (d < 0 || spec->stored >> d & 1) continue;  // whole, or cut already
      const int64_t size = spec->sizes[static_cast<size_t>(axis)];
      const int64_t pieces_of_axis = shape.sizes[static_cast<size_t>(d)];
      const int64_t at = shape.coordinate(device, shape.all, d);
      const int64_t begin = shard_begin(size, pieces_of_axis, at);
      piece = piece.narrow(axis, begin, shard_begin(size, pieces_of_axis, at + 1) - begin);
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace tutti
