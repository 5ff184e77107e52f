#include "tutti/tensor/cut.h"

#include <ATen/ops/clone.h>

#include "tutti/mesh/shard.h"
#include "tutti/tensor/alias.h"
#include "tutti/tensor/strides.h"

namespace tutti {

namespace {

// Whether two components hold the same elements.
bool are_equal(const Spec& spec, int a, int b) {
  for (int axis = 0; axis < spec.rank(); ++axis)
    if (spec.begin(a, axis) != spec.begin(b, axis) || spec.length(a, axis) != spec.length(b, axis)) return false;
  return true;
}

// Of parts of one GPU, which are devices of their own, each has its own copy.
void part_equal_pieces(Components& pieces, const Spec& spec) {
  for (int i = 1; i < spec.num_components; ++i)
    for (int before = 0; before < i && pieces[static_cast<size_t>(i)].defined(); ++before) {
      Tensor& piece = pieces[static_cast<size_t>(i)];
      if (!are_equal(spec, before, i) || !are_aliases(pieces[static_cast<size_t>(before)], piece)) continue;
      piece = piece.clone();
      break;
    }
}

}  // namespace

Components cut(const Tensor& value, const Spec* spec) {
  Components pieces;
  for (int i = 0; i < spec->num_components; ++i) {
    Tensor piece;
    if (spec->is_here(i)) piece = value;
    for (int axis = 0; piece.defined() && axis < spec->rank(); ++axis)
      if (spec->length(i, axis) != spec->sizes[static_cast<size_t>(axis)])
        piece = piece.narrow(axis, spec->begin(i, axis), spec->length(i, axis));
    pieces.push_back(piece.defined() ? piece.to(spec->device_of(i)) : piece);
  }
  if (!spec->shape->mesh.shares_memory()) part_equal_pieces(pieces, *spec);
  return pieces;
}

Components own_pieces(const Tensor& value, const Spec* spec) {
  Components pieces = cut(value, spec);
  for (Tensor& piece : pieces)
    if (are_aliases(piece, value)) piece = piece.clone();
  return pieces;
}

void put(const Tensor& value, const Spec* spec, const Components& pieces) {
  const Components written = cut(value, spec);
  for (size_t i = 0; i < written.size(); ++i) {
    if (!written[i].defined()) continue;
    if (spec->shape->project(static_cast<int>(i), spec->stored, spec->unreduced) != 0)
      pieces[i].fill_(-0.0);  // with which -0 stays -0
    else if (!written[i].is_same(pieces[i]))
      copy_into(pieces[i], written[i]);
  }
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
      piece = piece.narrow(axis, shard_begin(size, pieces_of_axis, at), shard_length(size, pieces_of_axis, at));
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace tutti
