#include "tutti/checkpoint/contents.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/files/dtype_names.h"
#include "tutti/tensor/relayout.h"
#include "tutti/tensor/view.h"

namespace tutti::checkpoint {
namespace {

Region region_of(const Spec& spec, int component) {
  Region region;
  for (int axis = 0; axis < spec.rank(); ++axis) {
    region.first.push_back(spec.begin(component, axis));
    region.sizes.push_back(spec.length(component, axis));
  }
  return region;
}

bool is_first_along(const Spec& spec, DimensionMask dimensions, int component) {
  for (int d = 0; d < spec.shape->num_dimensions; ++d)
    if ((dimensions >> d & 1) && spec.shape->coordinate(component, spec.stored, d) != 0) return false;
  return true;
}

// Whether no component before this one has the same region.
bool is_first_of_equals(const Spec& spec, int component) { return is_first_along(spec, ~spec.sharded(), component); }
// Of a sum not yet taken, the term that a restored value goes to; the others become zero.
bool is_first_term(const Spec& spec, int component) { return is_first_along(spec, spec.unreduced, component); }

Components summed(const Spec*& spec, const TensorMeta& meta, const Components& components) {
  if (!spec->unreduced) return components;
  const Spec* to = intern(spec->shape, spec->axes, 0, spec->sizes);
  const Spec* from = std::exchange(spec, to);
  return Relayout(from, to, "save", Asked::explicitly).run(meta, components);
}

void add_pieces(NamedTensor& saved, MeshTensorImpl& impl) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Components& value = impl.read_here();
  const Spec* spec = impl.spec();
  const Components components = summed(spec, impl.meta(), value);
  if (spec->numel == 0)
    return void(saved.pieces.push_back({Region::whole(saved.sizes), first_here(components).reshape(saved.sizes)}));
  for (int component = 0; component < spec->num_components; ++component) {
    Region region = region_of(*spec, component);
    if (is_first_of_equals(*spec, component) && region.numel() > 0)
      saved.pieces.push_back(
          {std::move(region), components[static_cast<size_t>(component)], spec->shape->owner(component, spec->stored)});
  }
}

constexpr auto* kWayOut = "checkpoints are saved and restored outside of run";

}  // namespace

NamedTensor named_tensor(std::string name, const Tensor& tensor) {
  if (!tensor.defined()) throw Error(ErrorCode::invalid_argument, str("checkpoint: tensor '", name, "' is undefined"));
  if (tensor.layout() != at::kStrided)
    throw Error(ErrorCode::unimplemented,
                str("checkpoint: tensor '", name, "' is sparse; dense ones can be saved: call to_dense()"));
  files::dtype_name(tensor.scalar_type());
  NamedTensor saved{.name = std::move(name), .dtype = tensor.scalar_type(), .sizes = tensor.sizes().vec()};
  if (!is_mesh_tensor(tensor)) {
    saved.pieces.push_back({Region::whole(saved.sizes), tensor.detach()});
    return saved;
  }
  require_global_view("checkpoint: saving a mesh tensor", kWayOut);
  saved.layout = layout_of(tensor).to_string();
  add_pieces(saved, mesh_impl(tensor));
  return saved;
}

void require_all_here(const NamedTensor& tensor) {
  for (const Piece& piece : tensor.pieces)
    if (!piece.tensor.defined())
      throw Error(ErrorCode::unimplemented,
                  str("checkpoint: ", piece.region.to_string(), " of '", tensor.name, "' is in process ", piece.owner,
                      "; what is divided among processes is saved by all of them together, by a Checkpoint or a "
                      "CheckpointManager that is not `async`"));
}

NamedTensor named_shards(std::string name, const std::vector<Tensor>& shards) {
  NamedTensor all;
  for (const Tensor& shard : shards) {
    NamedTensor part = named_tensor(name, shard);
    if (part.sizes.empty())
      throw Error(ErrorCode::invalid_argument, str("checkpoint: a shard of '", name, "' is a scalar"));
    if (&shard == &shards.front()) {
      all = std::move(part);
      continue;
    }
    if (part.dtype != all.dtype || c10::IntArrayRef(part.sizes).slice(1) != c10::IntArrayRef(all.sizes).slice(1))
      throw Error(ErrorCode::invalid_argument, str("checkpoint: the shards of '", name, "' have unlike rows"));
    for (Piece& piece : part.pieces) {
      if (piece.region.numel() == 0) continue;
      piece.region.first[0] += all.sizes[0];
      all.pieces.push_back(std::move(piece));
    }
    all.sizes[0] += part.sizes[0];
  }
  if (all.pieces.size() > 1) std::erase_if(all.pieces, [](const Piece& piece) { return piece.region.numel() == 0; });
  return all;
}

void for_each_buffer_to_write(const Tensor& tensor, FunctionRef<void(Region&&, const Tensor&)> write) {
  if (!is_mesh_tensor(tensor)) return write(Region::whole(tensor.sizes()), tensor);
  require_global_view("checkpoint: restoring a mesh tensor", kWayOut);
  auto& impl = mesh_impl(tensor);
  const Components& components = all_here(impl.components()) ? impl.overwrite() : impl.write_here();
  const Spec* spec = impl.spec();
  for (int component = 0; component < spec->num_components; ++component) {
    const Tensor& buffer = components[static_cast<size_t>(component)];
    if (!buffer.defined()) continue;
    if (is_first_term(*spec, component))
      write(region_of(*spec, component), buffer);
    else
      buffer.detach().zero_();
  }
}

}  // namespace tutti::checkpoint
