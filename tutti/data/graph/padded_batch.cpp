#include <ATen/ops/full.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

using Shape = std::vector<int64_t>;

// The shape asked for, with the longest in its open axes.
Shape fitted(const Shape& longest, Shape asked) {
  bool fits = asked.size() == longest.size();
  for (size_t axis = 0; fits && axis < asked.size(); ++axis) {
    if (asked[axis] < 0) asked[axis] = longest[axis];
    fits = asked[axis] >= longest[axis];
  }
  if (fits) return asked;
  throw Error(ErrorCode::invalid_argument, str("padded_batch: rows of up to ", str_list(longest),
                                               " are to be padded to ", str_list(asked), ", which they exceed"));
}

// The largest size of each axis, or what is asked for.
Shape common_shape(std::span<const Leaf> leaves, const Shape* asked) {
  Shape shape(shape_of(leaves.front()).begin(), shape_of(leaves.front()).end());
  for (const Leaf& leaf : leaves) {
    const auto sizes = shape_of(leaf);
    if (sizes.size() != shape.size() || leaf.index() != leaves.front().index())
      throw Error(ErrorCode::invalid_argument, str("padded_batch: ", describe(leaf), " and ", describe(leaves.front()),
                                                   " in one batch; the numbers of axes must agree"));
    for (size_t axis = 0; axis < shape.size(); ++axis) shape[axis] = std::max(shape[axis], sizes[axis]);
  }
  return asked ? fitted(shape, *asked) : shape;
}

Leaf padded(const Tensor& tensor, const Shape& shape, double value) {
  if (tensor.sizes() == at::IntArrayRef(shape)) return tensor;
  const Tensor result = at::full(shape, value, tensor.options());
  Tensor inner = result;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    inner = inner.narrow(static_cast<int64_t>(axis), 0, tensor.size(static_cast<int64_t>(axis)));
  inner.copy_(tensor);
  return result;
}

Leaf padded(const Strings& text, const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count))
      throw Error(ErrorCode::invalid_argument, str("padded_batch: texts of shape ", str_list(shape)));
  std::vector<std::string> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < text.size(); ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
      place += rest % text.shape()[axis] * stride;
      rest /= text.shape()[axis];
    }
    values[static_cast<size_t>(place)] = text[i];
  }
  return Strings(std::move(values), shape);
}

std::vector<Leaf> stack_padded(std::span<const Element> elements, const PaddedBatchOptions& options) {
  check_same_keys(elements);
  std::vector<std::vector<Leaf>> columns(elements.front().leaves().size());
  for (const Element& element : elements) {
    const std::vector<Leaf> leaves = element.leaves();
    if (leaves.size() != columns.size())
      throw Error(ErrorCode::invalid_argument, str("padded_batch: elements of ", columns.size(), " and ", leaves.size(),
                                                   " leaves in one batch; they must agree"));
    for (size_t i = 0; i < leaves.size(); ++i) columns[i].push_back(leaves[i]);
  }
  const std::vector<Shape>& asked = options.padded_shapes;
  if (!asked.empty() && asked.size() != columns.size())
    throw Error(ErrorCode::invalid_argument,
                str("padded_batch: ", asked.size(), " padded_shapes for elements of ", columns.size(), " leaves"));
  std::vector<Leaf> stacked;
  for (size_t i = 0; i < columns.size(); ++i) {
    std::vector<Leaf>& column = columns[i];
    const Shape shape = common_shape(column, asked.empty() ? nullptr : &asked[i]);
    for (Leaf& leaf : column) {
      const auto* text = std::get_if<Strings>(&leaf);
      leaf = text ? padded(*text, shape) : padded(std::get<Tensor>(leaf), shape, options.padding_value);
    }
    stacked.push_back(stack_leaves(column));
  }
  return stacked;
}

class PaddedBatchIterator : public Iterator {
 public:
  PaddedBatchIterator(std::unique_ptr<Iterator> input, int64_t size, const PaddedBatchOptions& options)
      : input_(std::move(input)), size_(static_cast<size_t>(size)), options_(options) {}

  bool next(Element& element) override {
    elements_.clear();
    while (elements_.size() < size_ && input_->next(element)) elements_.push_back(std::move(element));
    if (elements_.empty() || (options_.drop_remainder && elements_.size() < size_)) return false;
    element = Element(stack_padded(elements_, options_), elements_.front().keys());
    return true;
  }

  void save(StateWriter& state) override {
    state.op("padded_batch", arguments());
    input_->save(state);
  }
  void restore(StateReader& state) override {
    state.op("padded_batch", arguments());
    input_->restore(state);
  }

 private:
  std::vector<int64_t> arguments() const { return {static_cast<int64_t>(size_), options_.drop_remainder}; }

  std::unique_ptr<Iterator> input_;
  size_t size_;
  PaddedBatchOptions options_;
  std::vector<Element> elements_;
};

}  // namespace

NodePtr padded_batch(const NodePtr& input, int64_t size, const PaddedBatchOptions& options) {
  Node node = *batch(input, size, {.drop_remainder = options.drop_remainder});
  node.rebuild = [=](const std::vector<NodePtr>& inputs) { return padded_batch(inputs.at(0), size, options); };
  node.row_sizes_vary = true;
  node.uniform = options.drop_remainder && input->batch_size == kNotBatched;
  node.iterate = [=](const std::stop_token& stop) {
    return std::make_unique<PaddedBatchIterator>(input->iterate(stop), size, options);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
