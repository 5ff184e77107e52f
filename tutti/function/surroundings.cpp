#include "tutti/function/surroundings.h"

#include <algorithm>

#include "tutti/tensor/mesh_tensor.h"

namespace tutti {

using Kind = Program::Buffer::Kind;

bool shows(const Tensor& tensor, const Geometry& geometry) {
  return tensor.scalar_type() == geometry.dtype && tensor.sizes() == at::IntArrayRef(geometry.sizes) &&
         tensor.strides() == at::IntArrayRef(geometry.strides) && tensor.storage_offset() == geometry.offset &&
         tensor.is_conj() == geometry.conjugate && tensor.is_neg() == geometry.negative &&
         tensor._is_zerotensor() == geometry.zero;
}

namespace {

bool lies_where_it_lay(const Program::MeshValue& mesh) {
  const Components& now = mesh_impl(mesh.tensor).components();
  return std::ranges::equal(now, mesh.components, [](const Tensor& a, const Tensor& b) { return a.is_same(b); });
}

// Whether a mesh tensor lies where it lay, and its replicas have its value if the program reads it in their place.
bool mesh_fits(const Program::MeshValue& mesh) {
  if (!lies_where_it_lay(mesh) || mesh.tensor.requires_grad() != mesh.requires_grad) return false;
  const ReplicaValues* values = mesh_impl(mesh.tensor).replica_values();
  return !mesh.shared || !values || !values->diverged();
}

bool replica_fits(const Program::Buffer& buffer) {
  return shows(buffer.origin, *buffer.origin_geometry) && buffer.origin.requires_grad() == buffer.origin_requires_grad;
}

bool lies_where_it_lay(const Program::Buffer& captured) {
  return captured.origin.storage().unsafeGetStorageImpl() == captured.storage.unsafeGetStorageImpl() &&
         static_cast<int64_t>(captured.storage.nbytes()) >= captured.bytes;
}

bool capture_fits(const Program::Buffer& buffer) { return lies_where_it_lay(buffer) && replica_fits(buffer); }

bool alias_fits(const Program::Alias& alias) {
  return alias.tensor.storage().unsafeGetStorageImpl() == alias.storage.unsafeGetStorageImpl() &&
         shows(alias.tensor, alias.geometry) && alias.tensor.requires_grad() == alias.requires_grad;
}

// Whether the pieces of the leaf's gradient lie as they lay, in the same buffers as those of other leaves.
bool gradient_fits(const Program& program, const Program::Leaf& leaf) {
  if (leaf.needs_none) return !gradient_of(leaf.tensor).defined();
  if (!leaf.is_known) return false;  // it may have used it
  if (leaf.entry_buffers.empty()) return true;
  const auto pieces = gradient_pieces(leaf.tensor);
  if (pieces.size() != leaf.entry_buffers.size()) return false;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Tensor& piece = pieces[i];
    if (!piece.defined() || !piece.has_storage() || !shows(piece, leaf.entry_geometries[i])) return false;
    const Tensor* const bound = gradient_piece(program, program.buffers[static_cast<size_t>(leaf.entry_buffers[i])]);
    if (!bound || !bound->has_storage() || !bound->storage().is_alias_of(piece.storage())) return false;
  }
  return true;
}

}  // namespace

bool gradients_fit(const Program& program) {
  return std::ranges::all_of(program.leaves, [&](const Program::Leaf& leaf) { return gradient_fits(program, leaf); });
}

bool memory_fits(const Program& program) {
  return std::ranges::all_of(program.meshes, [](const auto& mesh) { return lies_where_it_lay(mesh); }) &&
         std::ranges::all_of(program.buffers, [](const Program::Buffer& buffer) {
           return buffer.kind != Kind::captured || lies_where_it_lay(buffer);
         });
}

bool surroundings_fit(const Program& program) {
  for (const Program::MeshValue& mesh : program.meshes)
    if (!mesh_fits(mesh)) return false;
  for (const Program::Buffer& buffer : program.buffers) {
    if (buffer.kind == Kind::replica && !replica_fits(buffer)) return false;
    if (buffer.kind == Kind::captured && !capture_fits(buffer)) return false;
  }
  const auto hooks_fit = [](const Program::Leaf& leaf) { return hooks_of(leaf.tensor) == leaf.hooks; };
  return std::ranges::all_of(program.aliases, alias_fits) && std::ranges::all_of(program.leaves, hooks_fit) &&
         gradients_fit(program);
}

void bump_versions(const Program& program, at::ArrayRef<Tensor> arguments) {
  for (c10::VariableVersion version : program.written_versions) version.bump();
  for (const Program::Buffer& written : program.buffers) {
    if (!written.written) continue;
    Tensor tensor;
    if (written.kind == Kind::argument) tensor = arguments[static_cast<size_t>(written.index)];
    if (written.kind == Kind::gradient) tensor = gradient_of(program.leaves[static_cast<size_t>(written.index)].tensor);
    if (tensor.defined() && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace tutti
