#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

class BatchIterator : public Iterator {
 public:
  BatchIterator(std::unique_ptr<Iterator> input, int64_t size, const BatchOptions& options)
      : input_(std::move(input)), size_(static_cast<size_t>(size)), options_(options) {}

  bool next(Element& element) override {
    elements_.clear();
    while (elements_.size() < size_ && input_->next(element)) elements_.push_back(std::move(element));
    if (elements_.empty() || (options_.drop_remainder && elements_.size() < size_)) return false;
    element = stack(elements_);
    return true;
  }

 private:
  std::unique_ptr<Iterator> input_;
  size_t size_;
  BatchOptions options_;
  std::vector<Element> elements_;
};

int64_t num_batches(int64_t elements, int64_t size, const BatchOptions& options) {
  if (elements < 0) return elements;
  return elements / size + (!options.drop_remainder && elements % size != 0);
}

}  // namespace

NodePtr batch(const NodePtr& input, int64_t size, const BatchOptions& options) {
  if (size < 1) throw Error(ErrorCode::invalid_argument, str("batch: size ", size, "; it must be at least 1"));
  Node node = after(input, [=](const NodePtr& other) { return batch(other, size, options); });
  node.cardinality = num_batches(input->cardinality, size, options);
  node.batch_size = size;
  node.batch_size_of_rows = input->batch_size;
  node.uniform = options.drop_remainder;
  node.iterate = [=](const std::stop_token& stop) {
    return std::make_unique<BatchIterator>(input->iterate(stop), size, options);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
