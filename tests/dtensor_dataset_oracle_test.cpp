// tests/oracle/dtensor_layouts.json, kind `dataset`: elements ([i, i], i) in batches on a mesh, device by device.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/oracle_cases.h"
#include "tutti/device/logical_devices.h"
#include "tutti/dtensor/dtensor_dataset.h"
#include "tutti/tensor/cut.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::dtensor {
namespace {

using oracle::Json;
constexpr const char* kFile = "dtensor_layouts.json";

Mesh mesh_of(const Json& test, bool merge) {
  static const Json meshes = oracle::document(kFile).at("meshes");
  std::vector<MeshDimension> dimensions;
  int num_devices = 1;
  for (const Json& dimension : meshes.at(test.at("mesh").get<std::string>())) {
    dimensions.push_back({.name = dimension[0], .size = dimension[1]});
    num_devices *= dimension[1].get<int>();
  }
  return Mesh(std::move(dimensions), configure_logical_cpus(num_devices), {.merge = merge});
}

// Which of the recorded components a device holds. TensorFlow deals them to the devices in order, as many to each
// coordinate of the batch's dimension, which are the devices of that coordinate if the dimension is the mesh's first.
size_t dealt_to(int device, const Mesh& mesh, const std::string& batch_dim) {
  const MeshShape* shape = MeshShape::of(mesh);
  const int dimension = mesh.dimension(batch_dim);
  const int coordinate = shape->coordinate(device, shape->all, dimension);
  return static_cast<size_t>(coordinate * mesh.num_devices() / shape->sizes[static_cast<size_t>(dimension)]);
}

bool is_as_recorded(const Tensor& tensor, const Json& recorded, const std::string& batch_dim) {
  const Mesh mesh = layout_of(tensor).mesh();
  if (layout_of(tensor) != Layout(recorded.at("layout").get<std::vector<std::string>>(), mesh)) return false;
  const auto pieces = replica_pieces(mesh_impl(tensor).spec(), mesh_impl(tensor).read());
  const Json& components = recorded.at("components");
  if (pieces.size() != components.size()) return false;
  for (int device = 0; device < mesh.num_devices(); ++device)
    if (!oracle::equals(pieces[static_cast<size_t>(device)], components[dealt_to(device, mesh, batch_dim)]))
      return false;
  return true;
}

bool holds(const Json& test, bool merge, int64_t prefetch) {
  const Mesh mesh = mesh_of(test, merge);
  const std::string batch_dim = test.at("batch_dim");
  const auto elements = data::range(test.at("n").get<int64_t>()).map([](const Tensor& i) {
    return std::tuple(i.to(at::kFloat).expand({2}), i);
  });
  const DTensorDataset dataset(
      elements, {.mesh = mesh,
                 .layouts = {Layout::batch_sharded(mesh, batch_dim, 2), Layout::batch_sharded(mesh, batch_dim, 1)},
                 .global_batch_size = test.at("global_batch_size"),
                 .batch_dim = batch_dim,
                 .prefetch = prefetch});
  const Json& expected = test.at("expected");
  size_t step = 0;
  for (const auto& [x, y] : dataset) {
    if (step == expected.size()) return false;
    if (!is_as_recorded(x, expected[step][0], batch_dim) || !is_as_recorded(y, expected[step][1], batch_dim))
      return false;
    ++step;
  }
  return step == expected.size();
}

bool holds_in_every_way(const Json& test) {
  return holds(test, true, 0) && holds(test, false, 0) && holds(test, true, 2) && holds(test, false, 2);
}

// The kinds that other tests run.
std::set<std::string> other_kinds() {
  std::set<std::string> kinds;
  for (const Json& test : oracle::cases(kFile)) kinds.insert(test.at("kind").get<std::string>());
  kinds.erase("dataset");
  return kinds;
}

TEST(DTensorDatasetOracle, Holds) {
  oracle::run_cases(
      kFile, [](const Json& test) { return holds_in_every_way(test); }, other_kinds());
}

// Where the batch's dimension is not the mesh's first, TensorFlow gives devices the rows of others. Here each has those
// of its own coordinate, as the layout says.
TEST(DTensorDatasetOracle, IsBettered) {
  for (const Json& test : oracle::cases(kFile)) {
    if (test.at("kind") != "dataset" || mesh_of(test, true).dimension(test.at("batch_dim")) == 0) continue;
    EXPECT_TRUE(holds_in_every_way(test)) << test.dump();
  }
}

}  // namespace
}  // namespace tutti::dtensor
