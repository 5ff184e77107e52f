#include "tutti/data/graph/leaf.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data::graph {
namespace {

template <class T>
std::vector<T> values_of(std::span<const Leaf> leaves) {
  std::vector<T> values;
  values.reserve(leaves.size());
  for (const Leaf& leaf : leaves) values.push_back(std::get<T>(leaf));
  return values;
}

}  // namespace

std::span<const int64_t> shape_of(const Leaf& leaf) {
  if (std::holds_alternative<NodePtr>(leaf))
    throw Error(
        ErrorCode::invalid_argument,
        "Dataset: an element is itself a dataset, which has no shape and cannot be stacked, cut or cached; join "
        "the elements' elements with flat_map first");
  if (const auto* text = std::get_if<Strings>(&leaf)) return text->shape();
  const at::IntArrayRef sizes = std::get<Tensor>(leaf).sizes();
  return {sizes.data(), sizes.size()};
}

std::string describe(const Leaf& leaf) {
  if (std::holds_alternative<NodePtr>(leaf)) return "a dataset";
  const auto* tensor = std::get_if<Tensor>(&leaf);
  if (!tensor) return str("Strings ", str_list(shape_of(leaf)));
  return str(c10::toString(tensor->scalar_type()), ' ', str_list(tensor->sizes()), " on ", tensor->device().str());
}

bool same_form(const Leaf& a, const Leaf& b) {
  if (a.index() != b.index() || !std::ranges::equal(shape_of(a), shape_of(b))) return false;
  const auto* tensor = std::get_if<Tensor>(&a);
  if (!tensor) return true;
  const auto& other = std::get<Tensor>(b);
  return tensor->scalar_type() == other.scalar_type() && tensor->device() == other.device();
}

Leaf row_of(const Leaf& leaf, int64_t index) {
  if (const auto* text = std::get_if<Strings>(&leaf)) return text->row(index);
  return std::get<Tensor>(leaf).select(0, index);
}

Leaf rows_of(const Leaf& leaf, int64_t first, int64_t count) {
  if (const auto* text = std::get_if<Strings>(&leaf)) return text->rows(first, count);
  return std::get<Tensor>(leaf).narrow(0, first, count);
}

Leaf stack_leaves(std::span<const Leaf> leaves) {
  shape_of(leaves.front());
  if (std::holds_alternative<Strings>(leaves.front())) return stack(values_of<Strings>(leaves));
  return at::stack(values_of<Tensor>(leaves));
}

Leaf concatenate_rows(std::span<const Leaf> leaves) {
  if (std::holds_alternative<Strings>(leaves.front())) return concatenate(values_of<Strings>(leaves));
  return at::cat(values_of<Tensor>(leaves));
}

const Tensor* host_tensor(const Leaf& leaf) {
  const auto* tensor = std::get_if<Tensor>(&leaf);
  return tensor && tensor->key_set().has(c10::DispatchKey::CPU) ? tensor : nullptr;
}

Leaf packed(const Leaf& leaf) {
  const auto* tensor = std::get_if<Tensor>(&leaf);
  if (!tensor) return leaf;
  const Tensor values = tensor->requires_grad() ? tensor->detach() : *tensor;
  return values.layout() == at::kStrided ? values.resolve_conj().resolve_neg().contiguous() : values;
}

}  // namespace tutti::data::graph
