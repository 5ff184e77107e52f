#include "tutti/mesh/layout.h"

#include <algorithm>
#include <limits>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/mesh/shard.h"

namespace tutti {
namespace {

[[noreturn]] void refuse_layout(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "Layout" + message);
}

// `axis` in [0, rank), counted from the end where it is negative.
size_t resolved(const char* function, int axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw Error(ErrorCode::out_of_range, str("Layout::", function, ": axis ", axis, " of a layout of rank ", rank));
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

// `a` + `b`, or `a` * `b`, both at least 0.
int64_t checked_sum(int64_t a, int64_t b) {
  if (a > std::numeric_limits<int64_t>::max() - b) refuse_layout(": a size that 64 bits do not hold");
  return a + b;
}
int64_t checked_product(int64_t a, int64_t b) {
  if (b != 0 && a > std::numeric_limits<int64_t>::max() / b) refuse_layout(": a size that 64 bits do not hold");
  return a * b;
}

}  // namespace

Layout::Layout(const std::vector<std::string>& axes, Mesh mesh, const std::vector<std::string>& unreduced)
    : mesh_(std::move(mesh)) {
  DimensionMask used = 0;
  const auto take = [&](const std::string& name) {
    const int dimension = mesh_.dimension(name);
    if (used >> dimension & 1)
      refuse_layout(str(": mesh dimension \"", name, "\" is used twice in ", str_list(axes),
                        "; it can split one axis or hold one sum"));
    used |= DimensionMask{1} << dimension;
    return dimension;
  };
  for (const auto& name : axes)
    axes_.push_back(name == kUnsharded ? kUnshardedAxis : name == kMatch ? kMatchedAxis : take(name));
  for (const auto& name : unreduced) unreduced_ |= DimensionMask{1} << take(name);
}

Layout Layout::replicated(const Mesh& mesh, int rank) {
  if (rank < 0) refuse_layout(str("::replicated: rank is ", rank));
  return Layout(mesh, std::vector<int>(static_cast<size_t>(rank), kUnshardedAxis));
}

Layout Layout::batch_sharded(const Mesh& mesh, const std::string& dimension, int rank, int axis) {
  if (rank < 1 || axis < 0 || axis >= rank)
    refuse_layout(str("::batch_sharded: axis ", axis, " of rank ", rank, "; it must be from 0 to rank - 1"));
  std::vector<int> axes(static_cast<size_t>(rank), kUnshardedAxis);
  axes[static_cast<size_t>(axis)] = mesh.dimension(dimension);
  return Layout(mesh, std::move(axes));
}

Layout Layout::inner_sharded(const Mesh& mesh, const std::string& dimension, int rank) {
  return batch_sharded(mesh, dimension, rank, rank - 1);
}

std::vector<std::string> Layout::sharding_specs() const {
  std::vector<std::string> names;
  for (const int axis : axes_)
    names.push_back(axis == kUnshardedAxis ? kUnsharded
                    : axis == kMatchedAxis ? kMatch
                                           : mesh_.dimensions()[static_cast<size_t>(axis)].name);
  return names;
}

std::vector<std::string> Layout::unreduced_names() const {
  std::vector<std::string> names;
  for (size_t d = 0; d < mesh_.dimensions().size(); ++d)
    if (unreduced_ >> d & 1) names.push_back(mesh_.dimensions()[d].name);
  return names;
}

bool Layout::is_replicated() const {
  return !unreduced_ && std::all_of(axes_.begin(), axes_.end(), [](int axis) { return axis == kUnshardedAxis; });
}

bool Layout::is_batch_parallel() const {
  return !unreduced_ && !axes_.empty() && axes_[0] >= 0 &&
         std::all_of(axes_.begin() + 1, axes_.end(), [](int axis) { return axis == kUnshardedAxis; });
}

bool Layout::has_match() const { return std::find(axes_.begin(), axes_.end(), kMatchedAxis) != axes_.end(); }

Layout Layout::delete_axes(const std::vector<int>& axes) const {
  std::vector<bool> deleted(axes_.size());
  for (const int axis : axes) {
    const size_t at = resolved("delete_axes", axis, rank());
    if (deleted[at]) refuse_layout(str("::delete_axes: axis ", at, " is named twice"));
    deleted[at] = true;
  }
  Layout result = *this;
  result.axes_.clear();
  for (size_t axis = 0; axis < axes_.size(); ++axis)
    if (!deleted[axis]) result.axes_.push_back(axes_[axis]);
  return result;
}

Layout Layout::matched(const Layout& source) const {
  if (!has_match()) return *this;
  if (source.rank() != rank() || !(source.mesh_ == mesh_))
    refuse_layout(str("::matched: ", to_string(), " on ", mesh_.to_string(), " takes entries of ", source.to_string(),
                      " on ", source.mesh_.to_string(), "; rank and mesh must be the same"));
  auto specs = sharding_specs();
  const auto source_specs = source.sharding_specs();
  for (size_t axis = 0; axis < specs.size(); ++axis)
    if (axes_[axis] == kMatchedAxis) specs[axis] = source_specs[axis];
  return Layout(specs, mesh_, unreduced_names());
}

int64_t Layout::num_shards(int axis) const {
  const int dimension = axes_[resolved("num_shards", axis, rank())];
  return dimension < 0 ? 1 : mesh_.dimensions()[static_cast<size_t>(dimension)].size;
}

void Layout::check_shape(const char* function, const Shape& shape) const {
  if (has_match()) refuse_layout(str("::", function, ": ", to_string(), " is a layout for relayout() alone"));
  if (static_cast<int>(shape.size()) != rank())
    refuse_layout(str("::", function, ": shape ", str_list(shape), " and a layout ", to_string(), " of rank ", rank()));
  for (const int64_t size : shape)
    if (size < 0) refuse_layout(str("::", function, ": shape ", str_list(shape), " has a negative size"));
}

Layout::Shape Layout::local_shape_from_global_shape(const Shape& global_shape, int64_t device) const {
  check_shape("local_shape_from_global_shape", global_shape);
  const Shape at = mesh_.coordinates(device);
  Shape local = global_shape;
  for (size_t axis = 0; axis < local.size(); ++axis)
    if (const int d = axes_[axis]; d >= 0)
      local[axis] = shard_length(local[axis], num_shards(static_cast<int>(axis)), at[static_cast<size_t>(d)]);
  return local;
}

Layout::Shape Layout::local_offset(const Shape& global_shape, int64_t device) const {
  check_shape("local_offset", global_shape);
  const Shape at = mesh_.coordinates(device);
  Shape offset(global_shape.size(), 0);
  for (size_t axis = 0; axis < offset.size(); ++axis)
    if (const int d = axes_[axis]; d >= 0)
      offset[axis] = shard_begin(global_shape[axis], num_shards(static_cast<int>(axis)), at[static_cast<size_t>(d)]);
  return offset;
}

Layout::Shape Layout::global_shape_from_local_shape(const Shape& local_shape) const {
  check_shape("global_shape_from_local_shape", local_shape);
  Shape global = local_shape;
  for (size_t axis = 0; axis < global.size(); ++axis)
    global[axis] = checked_product(global[axis], num_shards(static_cast<int>(axis)));
  return global;
}

Layout::Shape Layout::global_shape_from_local_shapes(const std::vector<Shape>& local_shapes) const {
  if (static_cast<int64_t>(local_shapes.size()) != mesh_.num_devices())
    refuse_layout(str(": ", local_shapes.size(), " components for the ", mesh_.num_devices(), " devices of ",
                      mesh_.to_string(), "; there must be one for each"));
  for (size_t device = 0; device < local_shapes.size(); ++device)
    if (static_cast<int>(local_shapes[device].size()) != rank())
      refuse_layout(str(": component ", device, " has shape ", str_list(local_shapes[device]), ", of rank ",
                        local_shapes[device].size(), "; the layout ", to_string(), " has rank ", rank()));
  check_shape("global_shape_from_local_shapes", local_shapes[0]);
  const auto strides = mesh_.strides();
  Shape global = local_shapes[0];
  for (size_t axis = 0; axis < global.size(); ++axis)
    for (int64_t piece = 1; piece < num_shards(static_cast<int>(axis)); ++piece) {
      const auto device = static_cast<size_t>(piece * strides[static_cast<size_t>(axes_[axis])]);
      global[axis] = checked_sum(global[axis], local_shapes[device][axis]);
    }
  for (size_t device = 0; device < local_shapes.size(); ++device)
    if (const Shape wanted = local_shape_from_global_shape(global, static_cast<int64_t>(device));
        wanted != local_shapes[device])
      refuse_layout(str(": component ", device, " has shape ", str_list(local_shapes[device]), "; in the layout ",
                        to_string(), " on ", mesh_.to_string(), " a tensor of shape ", str_list(global), " has there ",
                        str_list(wanted)));
  return global;
}

std::vector<Layout::Shape> Layout::offset_to_shard() const {
  std::vector<Shape> offsets;
  for (int64_t device = 0; device < mesh_.num_devices(); ++device) {
    const Shape at = mesh_.coordinates(device);
    Shape& offset = offsets.emplace_back();
    for (const int dimension : axes_) offset.push_back(dimension < 0 ? 0 : at[static_cast<size_t>(dimension)]);
  }
  return offsets;
}

std::string Layout::to_string() const {
  std::string text = str_list(sharding_specs());
  if (!unreduced_) return text;
  const std::string names = str_list(unreduced_names());
  return text + " unreduced={" + names.substr(1, names.size() - 2) + "}";
}

}  // namespace tutti
