// tests/oracle/dtensor_layouts.json but for its operations: meshes, layouts and their text, packing, relayout, what is
// made in a layout, and what is refused.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "tests/support/error_of.h"
#include "tests/support/oracle_cases.h"
#include "tutti/device/logical_devices.h"
#include "tutti/dtensor/create_mesh.h"
#include "tutti/dtensor/default_mesh.h"
#include "tutti/dtensor/dvariable.h"
#include "tutti/dtensor/fetch_layout.h"
#include "tutti/dtensor/pack.h"
#include "tutti/dtensor/relayout.h"
#include "tutti/dtensor/stateless_random.h"

namespace tutti::dtensor {
namespace {

using oracle::equals, oracle::Json;

constexpr const char* kFile = "dtensor_layouts.json";

// What Python takes and C++ does not: a layout of things that are no names, on what is no mesh.
static_assert(!std::is_constructible_v<Layout, std::vector<std::string>, const char*>);
static_assert(!std::is_constructible_v<Layout, int, Mesh>);
static_assert(!std::is_constructible_v<Layout, std::vector<std::nullptr_t>, Mesh>);
static_assert(!std::is_invocable_v<decltype(default_mesh), const char*>);
template <class Options>
concept TakesDeviceType = requires(Options options) { options.device_type; };
static_assert(!TakesDeviceType<CreateMeshOptions>);

const Json& document() {
  static const Json document = oracle::document(kFile);
  return document;
}

std::vector<MeshDimension> dimensions_of(const Json& list) {
  std::vector<MeshDimension> dimensions;
  for (const Json& dimension : list) dimensions.push_back({dimension.at(0), dimension.at(1)});
  return dimensions;
}

Mesh mesh_of(const Json& list, MeshOptions options = {}) {
  auto dimensions = dimensions_of(list);
  int64_t num_devices = 1;
  for (const auto& dimension : dimensions) num_devices *= dimension.size;
  return Mesh(std::move(dimensions), configure_logical_cpus(static_cast<int>(num_devices)), std::move(options));
}

// The mesh of a case.
Mesh mesh_of_case(const Json& test, MeshOptions options = {}) {
  return mesh_of(document().at("meshes").at(test.at("mesh").get<std::string>()), std::move(options));
}

Layout layout_of(const Json& specs, const Mesh& mesh) { return Layout(specs.get<std::vector<std::string>>(), mesh); }

Tensor plain(const Json& name) { return oracle::tensor(document().at("tensors").at(name.get<std::string>())); }

Tensor input_of(const Json& test, const Mesh& mesh) {
  const Json& input = test.at("input");
  return shard(plain(input.at("ref")), layout_of(input.at("layout"), mesh));
}

bool has_layout(const Tensor& tensor, const Json& specs) {
  return fetch_layout(tensor).sharding_specs() == specs.get<std::vector<std::string>>();
}

// Whether unpack gives what was recorded for each device.
bool unpacks_to(const Tensor& tensor, const Json& components) {
  const auto pieces = unpack(tensor);
  if (pieces.size() != components.size()) return false;
  for (size_t i = 0; i < pieces.size(); ++i)
    if (!equals(pieces[i], components[i])) return false;
  return true;
}

using Check = std::function<bool(const Json& test, const Mesh& mesh)>;

// With one buffer for a value, and with one for each piece of it.
auto on_both_meshes(Check check) {
  return [check](const Json& test) {
    const bool merged = check(test, mesh_of_case(test));
    return check(test, mesh_of_case(test, {.merge = false})) && merged;
  };
}

bool mesh(const Json& test) {
  const Mesh mesh = mesh_of(test.at("dims"), {.name = test.value("mesh_name", "")});
  const Json& expected = test.at("expected");
  bool holds = mesh.serialize() == expected.at("string") && Mesh::parse(mesh.serialize()) == mesh;
  if (!expected.contains("shape")) return holds;
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> coordinates;
  std::vector<std::map<std::string, int64_t>> locations(static_cast<size_t>(mesh.num_devices()));
  for (const auto& dimension : mesh.dimensions()) names.push_back(dimension.name);
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    coordinates.push_back(mesh.coordinates(device));
    for (size_t d = 0; d < names.size(); ++d) locations[static_cast<size_t>(device)][names[d]] = coordinates.back()[d];
  }
  for (const auto& [name, size] : expected.at("dim_sizes").items()) holds &= mesh.dim_size(name) == size;
  return holds && mesh.shape() == expected.at("shape") && mesh.num_devices() == expected.at("size") &&
         mesh.strides() == expected.at("strides") && names == expected.at("dim_names") &&
         coordinates == expected.at("coords") && locations == expected.at("locations") &&
         to_string(mesh.devices()[0].type) == expected.at("device_type").get<std::string>() &&
         mesh.num_devices() == expected.at("num_local_devices");
}

bool layout_make(const Json& test) {
  const Mesh mesh = mesh_of_case(test);
  const std::string make = test.at("make");
  const int rank = test.at("rank");
  const Layout layout = make == "replicated"      ? Layout::replicated(mesh, rank)
                        : make == "batch_sharded" ? Layout::batch_sharded(mesh, test.at("dim"), rank, test.at("axis"))
                                                  : Layout::inner_sharded(mesh, test.at("dim"), rank);
  return layout.serialize() == test.at("expected").at("string");
}

// "parted" apart: the text of TensorFlow's layouts whose pieces are of different sizes, which no tensor has here.
bool layout(const Json& test) {
  const Mesh mesh = mesh_of_case(test);
  const Layout layout = layout_of(test.at("specs"), mesh);
  const Json& expected = test.at("expected");
  const Layout::Shape global = test.at("global_shape");
  const Layout::Shape local = layout.local_shape_from_global_shape(global);
  std::vector<int64_t> num_shards;
  for (int axis = 0; axis < layout.rank(); ++axis) num_shards.push_back(layout.num_shards(axis));
  const Json& rest = expected.at("delete_first");
  return layout.serialize() == expected.at("string") && Layout::parse(layout.serialize()) == layout &&
         local == expected.at("local_shape") &&
         layout.global_shape_from_local_shape(local) == expected.at("global_shape_back") &&
         num_shards == expected.at("num_shards") && layout.offset_to_shard() == expected.at("offset_to_shard") &&
         mesh.shape() == expected.at("shape") && layout.is_replicated() == expected.at("fully_replicated") &&
         layout.is_batch_parallel() == expected.at("batch_parallel") && layout.rank() == expected.at("rank") &&
         (rest.is_null() || layout.delete_axes({0}).sharding_specs() == rest);
}

// The value stays, also where TensorFlow's did not ("equal").
bool relayout_case(const Json& test, const Mesh& mesh) {
  const Json& expected = test.at("expected");
  const Tensor result = relayout(input_of(test, mesh), layout_of(test.at("target"), mesh));
  const Json components = expected.value("components", Json());
  return has_layout(result, expected.at("layout")) && at::equal(gather(result), plain(test.at("input").at("ref"))) &&
         (components.is_null() || unpacks_to(result, components));
}

bool unpack_case(const Json& test, const Mesh& mesh) {
  const Tensor input = input_of(test, mesh);
  const Tensor repacked = pack(unpack(input), fetch_layout(input), {.check_copies = true});
  return unpacks_to(input, test.at("expected")) && at::equal(gather(repacked), plain(test.at("input").at("ref"))) &&
         fetch_layout(repacked) == fetch_layout(input);
}

bool copy_to_mesh_case(const Json& test, const Mesh& mesh) {
  const Tensor value = plain(test.at("input").at("ref"));
  const Tensor copy = copy_to_mesh(value, layout_of(test.at("target"), mesh));
  return has_layout(copy, test.at("expected").at("layout")) && at::equal(gather(copy), value);
}

Tensor make(const Json& test) {
  const auto shape = test.at("shape").get<std::vector<int64_t>>();
  const StatelessSeed seed(test.at("seed").at(0), test.at("seed").at(1));
  if (test.at("fn") == "zeros") return at::zeros(shape);
  if (test.at("fn") == "stateless_normal") return stateless_normal(shape, {.seed = seed});
  return stateless_uniform(shape, {.seed = seed});
}

// The numbers of one device in every layout, as docs/tf_mapping.md promises; TensorFlow's sharded ones ("value") depend
// on the layout.
bool create(const Json& test, const Mesh& mesh) {
  const Layout layout = layout_of(test.at("layout"), mesh);
  const Json& expected = test.at("expected");
  const Tensor made = call_with_layout(layout, [&] { return make(test); });
  return has_layout(made, expected.at("layout")) && equals(gather(made), expected.at("plain")) &&
         equals(make(test), expected.at("plain")) &&
         (!layout.is_replicated() || equals(gather(made), expected.at("value")));
}

bool dvariable(const Json& test, const Mesh& mesh) {
  const Layout layout = layout_of(test.at("layout"), mesh);
  const DVariable variable(shard(plain(test.at("initial")), layout));
  for (const Json& update : test.at("updates")) {
    const Tensor value = shard(plain(update.at(1)), layout) * update.at(2).get<double>();
    if (update.at(0) == "assign")
      variable.assign(value);
    else
      update.at(0) == "assign_add" ? variable.assign_add(value) : variable.assign_sub(value);
  }
  const Json& expected = test.at("expected");
  return has_layout(variable, expected.at("layout")) && equals(gather(variable.value().detach()), expected.at("value"));
}

const Mesh& m24() {
  static const Mesh mesh({{"x", 2}, {"y", 4}}, configure_logical_cpus(8));
  return mesh;
}
const Mesh& m8() {
  static const Mesh mesh({{"x", 8}}, configure_logical_cpus(8));
  return mesh;
}
std::string mesh_text() { return m24().serialize(); }
CreateMeshOptions on_eight() { return {.devices = configure_logical_cpus(8)}; }

// The calls that a case describes in words; each gives what was recorded, as JSON.
const std::map<std::string, std::function<Json()>>& algebra_calls() {
  static const std::map<std::string, std::function<Json()>> calls{
      {"duplicate dim", [] { return Layout({"x", "x"}, m24()).serialize(); }},
      {"unknown dim", [] { return Layout({"nope"}, m24()).serialize(); }},
      {"unsharded twice", [] { return Layout({kUnsharded, kUnsharded}, m24()).serialize(); }},
      {"match spec", [] { return Layout({kMatch, kUnsharded}, m24()).serialize(); }},
      {"string missing prefix", [] { return Layout::parse("x,unsharded, mesh:" + mesh_text()).serialize(); }},
      {"string missing mesh", [] { return Layout::parse("sharding_specs:x,unsharded, ").serialize(); }},
      {"string unknown dim", [] { return Layout::parse("sharding_specs:w, mesh:" + mesh_text()).serialize(); }},
      {"string duplicate", [] { return Layout::parse("sharding_specs:x,x, mesh:" + mesh_text()).serialize(); }},
      {"string scalar", [] { return Layout::parse("sharding_specs: mesh:" + mesh_text()).serialize(); }},
      {"string empty", [] { return Layout::parse("").serialize(); }},
      {"mesh string bad", [] { return Mesh::parse("x=2").serialize(); }},
      {"mesh string sizes differ", [] { return Mesh::parse("|x=2|0,1|0,1|CPU:0,CPU:1,CPU:2").serialize(); }},
      {"create_mesh wrong product", [] { return create_mesh({{"x", 3}}, on_eight()).serialize(); }},
      {"create_mesh minus one", [] { return create_mesh({{"x", -1}}, on_eight()).serialize(); }},
      {"create_mesh none", [] { return create_mesh().serialize(); }},
      {"create_mesh dict", [] { return create_mesh({{"p", 4}, {"q", 2}}, on_eight()).serialize(); }},
      {"create_mesh empty devices", [] { return create_mesh({{"x", -1}}, {.devices = {}}).serialize(); }},
      {"create_mesh zero dims", [] { return create_mesh({}, {.devices = {"CPU:0"}}).serialize(); }},
      {"dim_size unknown", [] { return Json(m24().dim_size("nope")); }},
      {"mesh index",
       [] {
         const auto [name, size] = m24().dimensions()[static_cast<size_t>(m24().dimension("x"))];
         return "MeshDimension(name='" + name + "', size=" + std::to_string(size) + ')';
       }},
      {"contains", [] { return Json(m24().contains("x") && !m24().contains("nope")); }},
      {"layout equality by specs",
       [] { return Json(Layout({"x", kUnsharded}, m24()) == Layout::batch_sharded(m24(), "x", 2)); }},
      {"layout scalar vs vector differ", [] { return Json(!(Layout({}, m24()) == Layout({kUnsharded}, m24()))); }},
  };
  return calls;
}

Tensor ones_by_x() { return shard(at::ones({8, 4}), Layout({"x", kUnsharded}, m24())); }

std::vector<Tensor> eight(const Tensor& component) { return std::vector<Tensor>(8, component); }

Tensor pack_with_last(const Tensor& last) {
  auto components = eight(at::zeros({2}));
  components.back() = last;
  return pack(components, Layout({"x"}, m8()));
}

const std::map<std::string, std::function<Json()>>& calls() {
  static const std::map<std::string, std::function<Json()>> calls{
      {"too few components", [] { return Json(is_dtensor(pack({at::zeros({2})}, Layout({"x"}, m8())))); }},
      {"scalar with rank-1 layout", [] { return Json(is_dtensor(pack(eight(at::zeros({})), Layout({"x"}, m8())))); }},
      {"rank 2 with rank-1 layout",
       [] { return Json(is_dtensor(pack(eight(at::zeros({2, 2})), Layout({"x"}, m8())))); }},
      {"different dtypes", [] { return Json(is_dtensor(pack_with_last(at::zeros({2}, at::kInt)))); }},
      {"variable", [] { return Json(is_dtensor(pack_with_last(at::zeros({2}).set_requires_grad(true)))); }},
      {"unpack a plain tensor", [] { return Json(unpack(at::zeros({2})).size()); }},
      {"fetch_layout of a plain tensor", [] { return Json(fetch_layout(at::zeros({2})).rank()); }},
      {"is_dtensor of a plain tensor", [] { return Json(is_dtensor(at::zeros({2}))); }},
      {"is_dtensor of a DTensor", [] { return Json(is_dtensor(ones_by_x())); }},
      {"check_layout mismatch",
       [] {
         check_layout(ones_by_x(), Layout({kUnsharded, "x"}, m24()));
         return Json();
       }},
      {"check_layout match",
       [] {
         check_layout(ones_by_x(), Layout({"x", kUnsharded}, m24()));
         return Json();
       }},
      {"add a plain scalar", [] { return Json(fetch_layout(ones_by_x() + at::ones({})).sharding_specs()); }},
      {"add two meshes",
       [] { return Json(is_dtensor(ones_by_x() + shard(at::ones({8, 4}), Layout::replicated(m8(), 2)))); }},
      {"numpy of a replicated DTensor",
       [] {
         const Tensor value = at::arange(8);
         return Json(at::equal(gather(shard(value, Layout::replicated(m24(), 1))), value));
       }},
      {"DVariable from plain tensor without layout", [] { return Json(is_dtensor(DVariable(at::ones({8})))); }},
      {"DVariable with conflicting layout",
       [] { return Json(is_dtensor(DVariable(ones_by_x(), {.layout = Layout({kUnsharded, "x"}, m24())}))); }},
      {"DVariable assign same layout",
       [] {
         const DVariable variable(ones_by_x());
         variable.assign(ones_by_x() * 3);
         return Json(at::equal(gather(variable.detach()), at::ones({8, 4}) * 3));
       }},
      {"DVariable assign_add other layout",
       [] {
         const DVariable variable(ones_by_x());
         variable.assign_add(relayout(ones_by_x(), Layout({kUnsharded, "y"}, m24())));
         check_layout(variable, Layout({"x", kUnsharded}, m24()));
         return Json(at::equal(gather(variable.detach()), at::ones({8, 4}) * 2));
       }},
  };
  return calls;
}

bool call(const Json& test) {
  const std::string kind = test.at("kind"), name = test.at("name");
  const auto& known = kind == "call" ? calls() : algebra_calls();
  const auto found = known.find(name.substr(kind.size() + 1));
  return found != known.end() && found->second() == test.value("expected", Json());
}

TEST(DTensorLayoutsOracle, Holds) {
  configure_logical_cpus(8);
  const std::map<std::string, std::function<bool(const Json&)>> kinds{
      {"mesh", mesh},
      {"layout_make", layout_make},
      {"layout", layout},
      {"algebra", call},
      {"call", call},
      {"relayout", on_both_meshes(relayout_case)},
      {"relayout_match", on_both_meshes([](const Json& test, const Mesh& mesh) { return relayout_case(test, mesh); })},
      {"unpack", on_both_meshes(unpack_case)},
      {"copy_to_mesh", on_both_meshes(copy_to_mesh_case)},
      {"create", on_both_meshes(create)},
      {"dvariable", on_both_meshes(dvariable)},
  };
  oracle::run_cases(
      kFile, [&](const Json& test) { return kinds.at(test.at("kind"))(test); }, {"op", "dataset"});
}

// The cases that exceptions.json names as better on purpose.

TEST(DTensorLayoutsOracle, UnevenShardsAreNoError) {
  for (const Json& test : oracle::cases(kFile)) {
    if (test.at("kind") != "copy_to_mesh" || !test.contains("error")) continue;
    const Tensor value = plain(test.at("input").at("ref"));
    const auto copy = [&](bool merge) {
      return copy_to_mesh(value, layout_of(test.at("target"), mesh_of_case(test, {.merge = merge})));
    };
    for (const bool merge : {true, false}) {
      if (value.dim() != static_cast<int64_t>(test.at("target").size()))
        EXPECT_EQ(code_of([&] { copy(merge); }), ErrorCode::invalid_argument) << test;
      else
        EXPECT_TRUE(at::equal(gather(copy(merge)), value)) << test;
    }
  }
  EXPECT_EQ(Layout({"y"}, m24()).local_shape_from_global_shape({5}), Layout::Shape{2});
  EXPECT_EQ(code_of([] { Layout({"y"}, m24()).local_shape_from_global_shape({4, 4}); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { pack_with_last(at::zeros({3})); }), ErrorCode::invalid_argument);
}

TEST(DTensorLayoutsOracle, MeshesAreCheckedWhenTheyAreMade) {
  EXPECT_EQ(create_mesh({{"x", 2}, {"y", -1}}, on_eight()).shape(), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(code_of([] { create_mesh({{"x", 2}, {"x", 4}}, on_eight()); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { create_mesh({{"x", 2}}, {.devices = {"CPU:0", "CPU:0"}}); }), ErrorCode::invalid_argument);
}

TEST(DTensorLayoutsOracle, LayoutsOfOtherKindsAreRefused) {
  const auto refused = [](const std::string& text) { return code_of([&] { Layout::parse(text); }); };
  EXPECT_EQ(refused("parted:x,unsharded, mesh:" + mesh_text()), ErrorCode::invalid_argument);
  EXPECT_EQ(refused("maximal:true, mesh:/job:localhost/replica:0/task:0/device:CPU:0"), ErrorCode::invalid_argument);
}

TEST(DTensorLayoutsOracle, PlainOperandsCountAsReplicated) {
  const Tensor sum = ones_by_x() + at::ones({8, 4});
  EXPECT_TRUE(at::equal(gather(sum), at::ones({8, 4}) * 2));
  EXPECT_TRUE(at::equal(gather(ones_by_x()), at::ones({8, 4})));
}

TEST(DTensorLayoutsOracle, AVariableTakesValuesOfAnyLayout) {
  const DVariable variable(ones_by_x());
  variable.assign(relayout(ones_by_x() * 5, Layout({kUnsharded, "y"}, m24())));
  check_layout(variable, Layout({"x", kUnsharded}, m24()));
  EXPECT_TRUE(at::equal(gather(variable.detach()), at::ones({8, 4}) * 5));
}

}  // namespace
}  // namespace tutti::dtensor
