#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/structure.h"
#include "tutti/data/graph/element.h"

// How the type of a dataset's elements is taken apart into leaves and put together again: an element is what
// core/structure.h says, with Tensors and Strings as leaves and without std::vector, which stands for a list of
// examples.
namespace tutti::data {
namespace structure_internal {

struct Writer {
  std::vector<graph::Leaf> leaves;
  std::vector<std::vector<std::string>> keys;

  void leaf(Tensor& value) { leaves.emplace_back(std::move(value)); }
  void leaf(Strings& value) { leaves.emplace_back(std::move(value)); }
  template <class V>
  void map(const std::map<std::string, V>& value) {
    auto& names = keys.emplace_back();
    for (const auto& entry : value) names.push_back(entry.first);
  }
};

struct Reader {
  std::vector<graph::Leaf> leaves;
  graph::Keys keys;
  size_t next_leaf = 0;
  size_t next_keys = 0;

  void leaf(Tensor& value) { value = std::get<Tensor>(std::move(leaves[next_leaf++])); }
  void leaf(Strings& value) { value = std::get<Strings>(std::move(leaves[next_leaf++])); }
  template <class V>
  void map(std::map<std::string, V>& value) {
    for (const std::string& name : (*keys)[next_keys++]) value[name];
  }
};

}  // namespace structure_internal

template <class T>
graph::Element to_element(T value) {
  structure_internal::Writer writer;
  structure::visit(value, writer);
  graph::Keys keys;
  if (!writer.keys.empty()) keys = std::make_shared<const graph::Keys::element_type>(std::move(writer.keys));
  return graph::Element(std::move(writer.leaves), std::move(keys));
}

// The inverse of to_element<T>; T is default-constructible.
template <class T>
T from_element(graph::Element element) {
  graph::Keys keys = element.keys();
  structure_internal::Reader reader{.leaves = std::move(element).leaves(), .keys = std::move(keys)};
  T value;
  structure::visit(value, reader);
  return value;
}

}  // namespace tutti::data
