#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/call_text.h"
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

void check_same_values(const Leaf& leaf, const Leaf& first) {
  const auto* tensor = std::get_if<Tensor>(&leaf);
  const auto* other = std::get_if<Tensor>(&first);
  if (tensor && other && (tensor->scalar_type() != other->scalar_type() || tensor->device() != other->device()))
    throw Error(ErrorCode::invalid_argument, str("padded_batch: ", describe(leaf), " and ", describe(first),
                                                 " in one batch; map the elements to one dtype and device"));
}

// The largest size of each axis, or what is asked for.
Shape common_shape(std::span<const Leaf> leaves, const Shape* asked) {
  Shape shape(shape_of(leaves.front()).begin(), shape_of(leaves.front()).end());
  for (const Leaf& leaf : leaves) {
    const auto sizes = shape_of(leaf);
    check_same_values(leaf, leaves.front());
    if (sizes.size() != shape.size() || leaf.index() != leaves.front().index())
      throw Error(ErrorCode::invalid_argument, str("padded_batch: ", describe(leaf), " and ", describe(leaves.front()),
                                                   " in one batch; the numbers of axes must agree"));
    for (size_t axis = 0; axis < shape.size(); ++axis) shape[axis] = std::max(shape[axis], sizes[axis]);
  }
  return asked ? fitted(shape, *asked) : shape;
}

Leaf padded(const Tensor& tensor, const Shape& shape, double value) {
  if (tensor.sizes() == at::IntArrayRef(shape)) return tensor;
  if (at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true) &&
      at::scalar_tensor(value, tensor.options()).item<double>() != value)
    throw Error(ErrorCode::invalid_argument, str("padded_batch: padding_value ", value, " is no ",
                                                 c10::toString(tensor.scalar_type()), "; give one that is"));
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
    while (elements_.size() < size_ && input_->next(element)) elements_.push_back(std::move(element));
    const std::vector<Element> batch = std::exchange(elements_, {});
    if (batch.empty() || (options_.drop_remainder && batch.size() < size_)) return false;
    element = Element(stack_padded(batch, options_), batch.front().keys());
    return true;
  }

  void save(StateWriter& state) override {
    state.op(text());
    input_->save(state);
    state.elements(elements_);
  }
  void restore(StateReader& state) override {
    state.op(text());
    input_->restore(state);
    elements_ = state.elements();
    if (elements_.size() >= size_) state.refuse(str("a batch of ", elements_.size(), " elements is not full"));
  }

 private:
  std::string text() const {
    return call_text("padded_batch", size_, options_.drop_remainder, options_.padding_value, options_.padded_shapes);
  }

  std::unique_ptr<Iterator> input_;
  size_t size_;
  PaddedBatchOptions options_;
  std::vector<Element> elements_;  // of a batch that is not full, when an error came out
};

}  // namespace

NodePtr padded_batch(const NodePtr& input, int64_t size, const PaddedBatchOptions& options) {
  for (const Shape& shape : options.padded_shapes)
    if (std::ranges::any_of(shape, [](int64_t size) { return size < -1; }))
      throw Error(ErrorCode::invalid_argument, str("padded_batch: padded_shapes has ", str_list(shape),
                                                   "; a size is -1, for the longest, or not negative"));
  Node node = *batch(input, size, {.drop_remainder = options.drop_remainder});
  node.rebuild = [=](const std::vector<NodePtr>& inputs) { return padded_batch(inputs.at(0), size, options); };
  node.row_sizes_vary = true;
  node.uniform = options.drop_remainder && input->batch_size == kNotBatched;
  node.iterate = [=](const Context& context) {
    return std::make_unique<PaddedBatchIterator>(input->iterate(context), size, options);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
