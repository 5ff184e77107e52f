// A program on plain tensors, on a mesh in global view, and in replicas.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DefaultDtype.h>

#include "machine.h"
#include "tests/support/test_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/dtensor/pack.h"
#include "tutti/mesh/layout.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/separate_parts.h"

namespace tutti::fuzz {
namespace {

constexpr uint64_t kSeed = 5;  // of the numbers that ops draw

}  // namespace

Mesh mesh_of(const Program& program) {
  std::vector<MeshDimension> dimensions;
  for (size_t d = 0; d < program.mesh.size(); ++d)
    dimensions.push_back({std::string(1, static_cast<char>('x' + d)), program.mesh[d]});
  return {dimensions,
          test_devices(static_cast<int>(program.num_devices())),
          {.merge = program.place == Place::merged || program.place == Place::recorded_merged,
           .name = program.place == Place::in_parts ? to_string(program.place) : ""}};  // with plans of its own
}

namespace {

Layout layout_of(const Input& input, const Mesh& mesh) {
  const auto name = [&](int d) { return mesh.dimensions()[static_cast<size_t>(d)].name; };
  std::vector<std::string> axes, unreduced;
  for (const int d : input.axes) axes.push_back(d < 0 ? kUnsharded : name(d));
  if (input.unreduced >= 0) unreduced.push_back(name(input.unreduced));
  return {axes, mesh, unreduced};
}

// The value as a sum over a mesh dimension: 2 x, -x, 0, …
Tensor as_terms(const Tensor& value, const Layout& layout, int dimension) {
  const Mesh& mesh = layout.mesh();
  const auto sizes = value.sizes().vec();
  std::vector<Tensor> components;
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    Tensor piece = value;
    const auto offset = layout.local_offset(sizes, device), shape = layout.local_shape_from_global_shape(sizes, device);
    for (int64_t axis = 0; axis < value.dim(); ++axis)
      piece = piece.narrow(axis, std::min(offset[static_cast<size_t>(axis)], value.size(axis)),
                           shape[static_cast<size_t>(axis)]);
    const int64_t term = mesh.coordinates(device)[static_cast<size_t>(dimension)];
    const bool single = mesh.shape()[static_cast<size_t>(dimension)] == 1;
    components.push_back(single ? piece : term == 0 ? piece * 2 : term == 1 ? -piece : at::zeros_like(piece));
  }
  return dtensor::pack(components, layout);
}

}  // namespace

Tensor on_mesh(const Input& input, const Mesh& mesh) {
  const Tensor value = make_value(input);
  if (input.plain) return value;
  const Layout layout = layout_of(input, mesh);
  return input.unreduced < 0 ? distribute_tensor(value, layout) : as_terms(value, layout, input.unreduced);
}

namespace {

Tensor with_noise(const Tensor& value, double noise, const at::Generator& generator) {
  if (noise == 0 || !(value.is_floating_point() || value.is_complex())) return value;
  const double unit = value.scalar_type() == at::kHalf                          ? 1e-3
                      : value.scalar_type() == at::kBFloat16                    ? 8e-3
                      : c10::toRealValueType(value.scalar_type()) == at::kFloat ? 1.2e-7
                                                                                : 2.2e-16;
  const Tensor random = at::rand(value.sizes(), generator, at::kDouble).sub(0.5).mul(2);
  return value.clone().mul_(random.mul(noise * unit).add(1).to(value.options()));
}

// What has 16 or 32 bits, with 64.
Tensor widened(const Tensor& value) {
  if (value.is_complex()) return value.to(at::kComplexDouble);
  return value.is_floating_point() ? value.to(at::kDouble) : value;
}

// Results of a type that nobody names are doubles here.
class DoublesByDefault {
 public:
  DoublesByDefault() : before_(c10::get_default_dtype()) { c10::set_default_dtype(caffe2::TypeMeta::Make<double>()); }
  ~DoublesByDefault() { c10::set_default_dtype(before_); }
  DoublesByDefault(const DoublesByDefault&) = delete;
  DoublesByDefault& operator=(const DoublesByDefault&) = delete;

 private:
  caffe2::TypeMeta before_;
};

}  // namespace

Outcome run_plain(const Program& program, const Variation& variation) {
  Machine machine(program, variation);
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(variation.seed);
  const auto changed = [&](const Tensor& value) { return with_noise(value, variation.noise, generator); };
  if (variation.noise != 0) machine.change_first_fractions(changed);
  for (const Input& input : program.inputs) {
    const Tensor value = variation.wide ? widened(make_value(input)) : make_value(input);
    machine.set(input.slot, changed(value).set_requires_grad(input.requires_grad));
  }
  at::manual_seed(kSeed);
  std::optional<DoublesByDefault> doubles;
  if (variation.wide) doubles.emplace();
  return machine.run_all([](const Tensor& tensor) { return tensor; });
}

Outcome run_on_mesh(const Program& program) {
  const Mesh mesh = mesh_of(program);
  std::optional<SeparateParts> parts;
  if (program.place == Place::in_parts) parts.emplace();
  Machine machine(program);
  for (const Input& input : program.inputs)
    machine.set(input.slot, on_mesh(input, mesh).set_requires_grad(input.requires_grad));
  at::manual_seed(kSeed);
  return machine.run_all([](const Tensor& tensor) { return gather(tensor); });
}

ReplicaOutcomes run_in_replicas(const Program& program) {
  MirroredStrategy strategy({.devices = test_devices(static_cast<int>(program.num_devices()))});
  std::map<int, Tensor> variables;
  strategy.build([&] {
    for (const Input& input : program.inputs)
      variables[input.slot] = make_value(input).set_requires_grad(input.requires_grad);
  });
  const PerReplica<Outcome> outcomes = strategy.run([&] {
    Machine machine(program);
    for (const auto& [slot, variable] : variables) machine.set(slot, variable);
    return machine.run_all([](const Tensor& tensor) { return local(tensor); });
  });
  Program inputs_only{.inputs = program.inputs};
  Machine machine(inputs_only);
  for (const auto& [slot, variable] : variables) machine.set(slot, variable);
  return {outcomes.values(), machine.run_all([](const Tensor& tensor) { return gather(tensor); })};
}

}  // namespace tutti::fuzz
