#include "tutti/tensor/mesh_members.h"

#include <ATen/Context.h>

#include <algorithm>
#include <mutex>
#include <span>

#include "tutti/core/bytes.h"
#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/of_meshes.h"
#include "tutti/tensor/spec.h"
#include "tutti/tensor/tensor_bytes.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

OfMeshes<Group>& groups_of_meshes() {
  static auto& all = *new OfMeshes<Group>;  // tensors may be read while static objects end
  return all;
}

// Each member's, by rank.
std::vector<int64_t> gather_numbers(Group& group, int64_t own, const std::string& cause) {
  std::vector<int64_t> all(static_cast<size_t>(group.size()));
  group.run({.kind = CollectiveKind::all_gather,
             .dtype = Dtype::int64,
             .count = 1,
             .input = &own,
             .output = all.data(),
             .name = cause.c_str()});
  return all;
}

[[noreturn]] void refuse_division(ErrorCode code, const Mesh& mesh, const std::string& why) {
  throw Error(code, str("divide_mesh: ", mesh.to_string(), ": ", why));
}

}  // namespace

void divide_mesh(const Mesh& mesh, const std::string& dimension, const std::shared_ptr<Group>& group) {
  const Division division{mesh.dimension(dimension), group->rank(), group->size()};
  if (mesh.dim_size(dimension) % group->size() != 0)
    refuse_division(ErrorCode::invalid_argument, mesh,
                    str("dimension \"", dimension, "\" cannot be cut into equal parts for ", group->size(),
                        " processes; its size must be a multiple of their number"));
  if (!mesh.shares_memory() || mesh.options().home)
    refuse_division(ErrorCode::unimplemented, mesh,
                    "only a mesh without a home, whose devices share memory, can be divided among processes yet");
  groups_of_meshes().set(MeshShape::of(mesh, division), group);
}

std::shared_ptr<Group> group_of(const MeshShape& shape) {
  if (auto* recorder = CallRecorder::current())  // a replay would leave the other processes waiting
    recorder->refuse(
        Error(ErrorCode::unimplemented, str("what the processes of the mesh ", shape.mesh.to_string(),
                                            " do together cannot be recorded in a function yet; call it outside")));
  auto group = groups_of_meshes().find(&shape);
  if (!group)
    throw Error(ErrorCode::failed_precondition,
                str("the group of processes among which the mesh ", shape.mesh.to_string(),
                    " is divided has ended; keep its handle, or divide the mesh again"));
  return group;
}

std::vector<std::vector<Tensor>> gather_over_members(const MeshShape& shape, const std::vector<Tensor>& own,
                                                     const std::string& cause, c10::Device device) {
  const auto group = group_of(shape);
  const auto members = static_cast<size_t>(group->size());
  ByteWriter writer;
  writer.number(static_cast<int64_t>(own.size()));
  for (const Tensor& tensor : own) write_tensor(writer, tensor);
  const auto lengths = gather_numbers(*group, static_cast<int64_t>(writer.bytes().size()), cause);
  const auto most = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::vector<uint8_t> sent = writer.bytes(), received(most * members);
  sent.resize(most);
  group->run({.kind = CollectiveKind::all_gather,
              .dtype = Dtype::uint8,
              .count = static_cast<int64_t>(most),
              .input = sent.data(),
              .output = received.data(),
              .name = cause.c_str()});
  std::vector<std::vector<Tensor>> all(members);
  for (size_t member = 0; member < members; ++member) {
    ByteReader reader(std::span<const uint8_t>(received).subspan(member * most, static_cast<size_t>(lengths[member])),
                      cause);
    all[member].resize(static_cast<size_t>(reader.count(1)));
    for (Tensor& tensor : all[member]) {
      tensor = read_tensor(reader);
      if (tensor.defined()) tensor = tensor.to(device);
    }
    reader.finish();
  }
  return all;
}

namespace {

int64_t checksum_of_state(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  const Tensor state = generator.get_state();
  return crc32c(state.const_data_ptr(), state.nbytes());
}

}  // namespace

void check_generators_of(const MeshShape& shape, const std::string& op, at::ArrayRef<at::IValue> arguments) {
  if (ThreadView::current().generator ||
      std::ranges::any_of(arguments, [](const at::IValue& value) { return value.isGenerator(); }))
    return;
  const auto group = group_of(shape);
  const auto all = gather_numbers(*group, checksum_of_state(at::globalContext().defaultGenerator(shape.home)), op);
  const auto other = std::ranges::find_if(all, [&](int64_t checksum) { return checksum != all[0]; });
  if (other == all.end()) return;
  throw Error(ErrorCode::failed_precondition,
              str(op, ": on the mesh ", shape.mesh.to_string(),
                  ", which is divided among processes, all of them draw "
                  "the same numbers, and the default generator of process ",
                  other - all.begin(),
                  " is not where that of process 0 is; have each call set_random_seed() with the same seed, draw in "
                  "all or in none from then on, or name a generator"));
}

}  // namespace tutti
