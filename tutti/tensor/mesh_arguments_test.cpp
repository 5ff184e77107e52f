// The tensors in the arguments of an op, changed and looked at.
#include "tutti/tensor/mesh_arguments.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "tutti/device/logical_devices.h"

namespace tutti {
namespace {

using at::IValue;
using testing::ElementsAre;

const Mesh& line() {
  static const Mesh mesh({{"x", 2}}, configure_logical_cpus(2));
  return mesh;
}
Tensor plain() { return at::ones({2}); }
Tensor on_mesh() { return distribute_tensor(at::ones({2}), Layout({"x"}, line())); }

// The tensors of a list as letters: of a mesh, plain, absent.
std::string kinds(const IValue& list) {
  std::string text;
  for (const IValue& item : list.toListRef())
    text += item.isNone() ? '-' : !item.toTensor().defined() ? '0' : is_mesh_tensor(item.toTensor()) ? 'm' : 'p';
  return text;
}

TEST(ArgumentTensors, AreAllReplacedWhereverTheyStand) {
  const auto bare = [](const Tensor& tensor) { return tensor.defined() ? plain() : tensor; };
  IValue tensor = on_mesh(), list = std::vector<Tensor>{on_mesh(), plain(), Tensor()};
  IValue optionals = c10::List<std::optional<Tensor>>{std::nullopt, on_mesh()};
  for (IValue* value : {&tensor, &list, &optionals}) replace_tensors(*value, bare);
  EXPECT_FALSE(is_mesh_tensor(tensor.toTensor()));
  EXPECT_EQ(kinds(list), "pp0");
  EXPECT_EQ(kinds(optionals), "-p");
  EXPECT_TRUE(list.isTensorList() && optionals.isOptionalTensorList());
}

TEST(ArgumentTensors, OfAMeshAloneAreReplacedByThatName) {
  std::vector<int> items;
  const auto pick = [&](const Tensor&, int item) {
    items.push_back(item);
    return plain();
  };
  IValue tensor = on_mesh(), list = std::vector<Tensor>{plain(), on_mesh(), Tensor()};
  IValue optionals = c10::List<std::optional<Tensor>>{std::nullopt, on_mesh()};
  for (IValue* value : {&tensor, &list, &optionals}) replace_mesh_tensors(*value, pick);
  EXPECT_FALSE(is_mesh_tensor(tensor.toTensor()));
  EXPECT_EQ(kinds(list), "pp0");
  EXPECT_EQ(kinds(optionals), "-p");
  EXPECT_THAT(items, ElementsAre(-1, 1, 1));
}

TEST(ArgumentTensors, WhatHoldsNoneIsLeftAlone) {
  const auto never = [](const Tensor&, int) -> Tensor { throw std::logic_error("a tensor"); };
  const IValue before = std::vector<Tensor>{plain()};
  IValue list = before, numbers = std::vector<int64_t>{1, 2}, none;
  for (IValue* value : {&list, &numbers, &none}) replace_mesh_tensors(*value, never);
  EXPECT_TRUE(list.is(before));
  EXPECT_THAT(numbers.toIntVector(), ElementsAre(1, 2));
  replace_tensors(numbers, [](const Tensor& tensor) { return tensor; });
  EXPECT_THAT(numbers.toIntVector(), ElementsAre(1, 2));
}

TEST(ArgumentTensors, OfAMeshAreVisitedWithTheirPlaces) {
  std::vector<int> items;
  const auto note = [&](const Tensor&, int item) { items.push_back(item); };
  for_each_mesh_tensor(on_mesh(), note);
  for_each_mesh_tensor(plain(), note);
  for_each_mesh_tensor(std::vector<Tensor>{plain(), on_mesh()}, note);
  for_each_mesh_tensor(c10::List<std::optional<Tensor>>{std::nullopt, plain(), on_mesh()}, note);
  for_each_mesh_tensor(7, note);
  EXPECT_THAT(items, ElementsAre(-1, 1, 2));
}

}  // namespace
}  // namespace tutti
