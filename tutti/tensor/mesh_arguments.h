#pragma once

#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <utility>

#include "tutti/tensor/mesh_tensor.h"

// The tensors in an argument of an op.
namespace tutti {

// Puts change(tensor) in the place of every tensor in `value`, of mesh tensors and others; what is absent stays so.
template <class Change>
void replace_tensors(at::IValue& value, const Change& change) {
  if (value.isTensor()) {
    value = change(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    value = std::move(list);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (const at::IValue& item : value.toListRef())
      list.push_back(item.isTensor() ? std::optional<Tensor>(change(item.toTensor())) : std::nullopt);
    value = std::move(list);
  }
}

// Replaces every mesh tensor in `value` by what `pick(tensor, item)` returns; item is -1 outside a list.
template <class Pick>
void replace_mesh_tensors(at::IValue& value, Pick pick) {
  if (value.isTensor()) {
    if (const Tensor& tensor = value.toTensor(); is_mesh_tensor(tensor)) value = pick(tensor, -1);
    return;
  }
  if (!value.isList()) return;
  const auto items = value.toListRef();
  bool any = false;
  for (const at::IValue& item : items) any |= item.isTensor() && is_mesh_tensor(item.toTensor());
  if (!any) return;
  const auto replaced = [&](size_t i) {
    const at::IValue& item = items[i];
    return item.isTensor() && is_mesh_tensor(item.toTensor()) ? pick(item.toTensor(), static_cast<int>(i))
                                                              : item.toTensor();
  };
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (size_t i = 0; i < items.size(); ++i)
      list.push_back(items[i].isNone() ? std::nullopt : std::optional<Tensor>(replaced(i)));
    value = std::move(list);
    return;
  }
  c10::List<Tensor> list;
  for (size_t i = 0; i < items.size(); ++i) list.push_back(replaced(i));
  value = std::move(list);
}

// Calls visit(tensor, item) for every mesh tensor in `value`; item is -1 outside a list.
template <class Visit>
void for_each_mesh_tensor(const at::IValue& value, Visit visit) {
  if (value.isTensor()) {
    if (is_mesh_tensor(value.toTensor())) visit(value.toTensor(), -1);
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    const auto items = value.toListRef();
    for (size_t i = 0; i < items.size(); ++i)
      if (items[i].isTensor() && is_mesh_tensor(items[i].toTensor())) visit(items[i].toTensor(), static_cast<int>(i));
  }
}

}  // namespace tutti
