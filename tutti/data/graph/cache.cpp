#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

using Store = std::vector<std::shared_ptr<const Table>>;

// Copies elements into tables. A table is closed when it is full, and the next one has room for twice as many rows; or
// when an element of another form comes, and the next one starts small. So elements of one form are copied once and lie
// in few tables; ragged ones, and those outside host memory, cost a table each.
class StoreBuilder {
 public:
  explicit StoreBuilder(int64_t cardinality) : cardinality_(cardinality) {}

  // Returns the element as the row that it became.
  Element add(const Element& element) {
    std::vector<Leaf> leaves = element.leaves();
    for (Leaf& leaf : leaves) leaf = packed(leaf);
    const bool fits = table_ && like_rows(leaves, element.keys());
    if (!fits || used_ == table_->num_rows()) {
      const int64_t room = fits ? 2 * used_ : 1;
      close();
      open(leaves, element.keys(), cardinality_ > added_ ? std::min(room, cardinality_ - added_) : room);
    }
    for (size_t i = 0; i < leaves.size(); ++i) copy_to_row(leaves[i], table_->columns()[i]);
    ++added_;
    return Element(table_, used_++);
  }

  Store finish() {
    close();
    return std::move(store_);
  }

 private:
  bool like_rows(const std::vector<Leaf>& leaves, const Keys& keys) const {
    return same_keys(keys, table_->keys()) &&
           std::ranges::equal(leaves, table_->columns(), [](const Leaf& leaf, const Leaf& rows) {
             const Tensor* value = host_tensor(leaf);
             const Tensor* column = host_tensor(rows);
             return value && column && value->sizes() == column->sizes().slice(1) &&
                    value->scalar_type() == column->scalar_type();
           });
  }

  void open(const std::vector<Leaf>& leaves, const Keys& keys, int64_t room) {
    std::vector<Leaf> columns;
    for (const Leaf& leaf : leaves) {
      if (const Tensor* value = host_tensor(leaf)) {
        auto sizes = value->sizes().vec();
        sizes.insert(sizes.begin(), room);
        columns.emplace_back(at::empty(sizes, value->options()));
      } else {
        columns.push_back(copy_of(stack_leaves({&leaf, 1})));
      }
    }
    table_ = std::make_shared<const Table>(columns, keys);
    used_ = 0;
  }

  // Past the version counter, which guards the rows that were given out.
  void copy_to_row(const Leaf& leaf, const Leaf& column) const {
    const Tensor* value = host_tensor(leaf);
    if (!value) return;  // open() has it
    auto* rows = static_cast<std::byte*>(host_tensor(column)->data_ptr());
    std::memcpy(rows + static_cast<size_t>(used_) * value->nbytes(), value->const_data_ptr(), value->nbytes());
  }

  void close() {
    if (!table_) return;
    if (used_ < table_->num_rows()) {
      std::vector<Leaf> kept;
      for (const Leaf& rows : table_->rows(0, used_)) kept.push_back(copy_of(rows));
      table_ = std::make_shared<const Table>(kept, table_->keys());
    }
    store_.push_back(std::move(table_));
  }

  // Text is immutable, and shared.
  static Leaf copy_of(const Leaf& leaf) {
    const auto* tensor = std::get_if<Tensor>(&leaf);
    return tensor ? Leaf(tensor->clone()) : leaf;
  }

  int64_t cardinality_;  // of the input, where known: no more room is made than it needs
  int64_t added_ = 0;
  Store store_;
  std::shared_ptr<const Table> table_;  // the open one: used_ of its rows are filled
  int64_t used_ = 0;
};

struct Cache {
  std::mutex mutex;
  std::shared_ptr<const Store> store;  // null until a pass came to its end
};

class FillingIterator : public Iterator {
 public:
  FillingIterator(std::unique_ptr<Iterator> input, std::shared_ptr<Cache> cache, int64_t cardinality)
      : input_(std::move(input)), cache_(std::move(cache)), builder_(cardinality) {}

  bool next(Element& element) override {
    if (cache_ && input_->next(element)) {
      element = builder_.add(element);
      return true;
    }
    if (cache_) {
      auto store = std::make_shared<const Store>(builder_.finish());
      const std::scoped_lock lock(cache_->mutex);
      if (!cache_->store) cache_->store = std::move(store);
    }
    cache_.reset();
    return false;
  }

 private:
  std::unique_ptr<Iterator> input_;
  std::shared_ptr<Cache> cache_;  // null once the pass is at its end
  StoreBuilder builder_;
};

class StoreIterator : public Iterator {
 public:
  explicit StoreIterator(std::shared_ptr<const Store> store) : store_(std::move(store)) {}

  bool next(Element& element) override {
    if (table_ == store_->size()) return false;
    const auto& table = (*store_)[table_];
    element = Element(table, row_++);
    if (row_ == table->num_rows()) {
      ++table_;
      row_ = 0;
    }
    return true;
  }

 private:
  std::shared_ptr<const Store> store_;
  size_t table_ = 0;
  int64_t row_ = 0;
};

}  // namespace

NodePtr cache(const NodePtr& input) {
  const auto cache = std::make_shared<Cache>();
  Node node = after(input, graph::cache);
  node.iterate = [input, cache](const std::stop_token& stop) -> std::unique_ptr<Iterator> {
    std::unique_lock lock(cache->mutex);
    if (cache->store) return std::make_unique<StoreIterator>(cache->store);
    lock.unlock();
    return std::make_unique<FillingIterator>(input->iterate(stop), cache, input->cardinality);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
