#include "tutti/export/onnx/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

using C = CallToLower;

Operands index_select(const C& c) {
  return {
      c.node("Gather", {c.tensor("self"), c.tensor("index", at::kLong)}, {{"axis", c.axis("dim", c.rank("self"))}})};
}
Operands embedding(const C& c) {
  return {c.node("Gather", {c.tensor("weight"), c.tensor("indices", at::kLong)}, {{"axis", int64_t{0}}})};
}
Operands gather(const C& c) {
  return {c.node("GatherElements", {c.tensor("self"), c.tensor("index", at::kLong)},
                 {{"axis", c.axis("dim", c.rank("self"))}})};
}

// x[..., indices, ...]: of one tensor of indices. A mask gives as many elements as it has ones.
Operands index(const C& c) {
  const auto indices = c.items("indices");
  int64_t axis = -1;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    if (axis >= 0) c.refuse("with several tensors of indices");
    axis = static_cast<int64_t>(i);
  }
  const Operand places = indices[static_cast<size_t>(axis)].value();
  if (places.dtype == at::kBool || places.dtype == at::kByte) c.refuse("with a mask");
  return {c.node("Gather", {c.tensor("self"), c.graph.cast(places, at::kLong)}, {{"axis", axis}})};
}

Operands one_hot(const C& c) {
  const int64_t num_classes = c.integer("num_classes");
  if (num_classes <= 0) c.refuse("without 'num_classes'");
  const Operand depth = c.graph.integer(num_classes, at::kLong), values = c.graph.integers({0, 1});
  return {c.node("OneHot", {c.tensor("self"), depth, values}, {{"axis", int64_t{-1}}})};
}

int64_t direction(const C& c, const char* name, bool otherwise) {
  return c.takes(name) ? int64_t{c.flag(name)} : int64_t{otherwise};
}
// Values and their places.
Operands topk(const C& c) {
  Operands most = c.graph.node(
      "TopK", {c.tensor("self"), c.sizes.one(c.symbolic("k")[0])},
      {{"axis", c.axis("dim", c.rank("self"))}, {"largest", direction(c, "largest", true)}, {"sorted", int64_t{1}}}, 2);
  most[1].dtype = at::kLong;
  return most;
}
// As many as there are; of equal ones that of the lower index comes first.
Operands sort(const C& c) {
  const int64_t axis = c.axis("dim", c.rank("self"));
  const Operand x = c.tensor("self");
  const Operand count = c.node("Shape", {x}, {{"start", axis}, {"end", axis + 1}}).as(at::kLong);
  Operands sorted = c.graph.node(
      "TopK", {x, count}, {{"axis", axis}, {"largest", direction(c, "descending", false)}, {"sorted", int64_t{1}}}, 2);
  sorted[1].dtype = at::kLong;
  return sorted;
}
Operands argsort(const C& c) { return {sort(c)[1]}; }

constexpr NamedLowering kIndexing[] = {
    {"index_select", index_select}, {"embedding", embedding}, {"gather", gather}, {"index", index},
    {"one_hot", one_hot},           {"topk", topk},           {"sort", sort},     {"argsort", argsort},
};

}  // namespace

std::span<const NamedLowering> indexing_lowerings() { return kIndexing; }

}  // namespace tutti::saved_model::onnx
