#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/structure.h"
#include "tutti/data/graph/element.h"

// How the type of a dataset's elements is taken apart into leaves and put together again: an element is what
// core/structure.h says, with Tensors, Strings and Datasets (see Dataset::window) as leaves and without std::vector,
// which stands for a list of examples.
namespace tutti::data {

template <class T>
class Dataset;

namespace structure_internal {

struct Writer {
  std::vector<graph::Leaf> leaves;
  std::vector<std::vector<std::string>> keys;

  void leaf(Tensor& value) { leaves.emplace_back(std::move(value)); }
  void leaf(Strings& value) { leaves.emplace_back(std::move(value)); }
  template <class T>
  void leaf(Dataset<T>& value) {
    leaves.emplace_back(value.node());
  }
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

  void leaf(Tensor& value) { value = take<Tensor>(); }
  void leaf(Strings& value) { value = take<Strings>(); }
  template <class T>
  void leaf(Dataset<T>& value) {
    value = Dataset<T>(take<graph::NodePtr>());
  }
  template <class V>
  void map(std::map<std::string, V>& value) {
    if (!keys || next_keys == keys->size()) graph::throw_other_structure();
    for (const std::string& name : (*keys)[next_keys++]) value[name];
  }

  // Elements that were read from a file may be of another dataset.
  template <class L>
  L take() {
    if (next_leaf == leaves.size() || !std::holds_alternative<L>(leaves[next_leaf])) graph::throw_other_structure();
    return std::get<L>(std::move(leaves[next_leaf++]));
  }
  void finish() const {
    if (next_leaf != leaves.size() || next_keys != (keys ? keys->size() : 0)) graph::throw_other_structure();
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

// The inverse of to_element<T>; T is default-constructible. Throws: failed_precondition if the leaves are not those of
// a T.
template <class T>
T from_element(graph::Element element) {
  graph::Keys keys = element.keys();
  structure_internal::Reader reader{.leaves = std::move(element).leaves(), .keys = std::move(keys)};
  T value;
  structure::visit(value, reader);
  reader.finish();
  return value;
}

}  // namespace tutti::data
