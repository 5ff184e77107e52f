#include <ATen/ops/empty.h>

#include <algorithm>
#include <mutex>

#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

using Store = std::vector<std::shared_ptr<const Table>>;

// Copies elements into tables. A table is closed when it is full, and the next one has room for twice as many rows; or
// when an element of another form comes, and the next one starts small. So elements of one form are copied once and lie
// in few tables, and ragged ones cost a small table each.
class StoreBuilder {
 public:
  explicit StoreBuilder(int64_t cardinality) : cardinality_(cardinality) {}

  void add(const Element& element) {
    const std::vector<Tensor> leaves = element.leaves();
    const bool fits = like_rows(leaves, element.keys());
    if (!fits || used_ == room_) {
      close();
      open(leaves, element.keys(), fits ? 2 * room_ : 1);
    }
    for (size_t i = 0; i < leaves.size(); ++i) columns_[i].select(0, used_).copy_(leaves[i]);
    ++used_;
    ++added_;
  }

  Store finish() {
    close();
    return std::move(store_);
  }

 private:
  bool like_rows(const std::vector<Tensor>& leaves, const Keys& keys) const {
    return leaves.size() == columns_.size() && same_keys(keys, keys_) &&
           std::ranges::equal(leaves, columns_, [](const Tensor& leaf, const Tensor& column) {
             return leaf.sizes() == column.sizes().slice(1) && leaf.scalar_type() == column.scalar_type() &&
                    leaf.device() == column.device();
           });
  }

  void open(const std::vector<Tensor>& leaves, const Keys& keys, int64_t room) {
    room_ = cardinality_ > added_ ? std::min(room, cardinality_ - added_) : room;
    used_ = 0;
    keys_ = keys;
    columns_.clear();
    for (const Tensor& leaf : leaves) {
      auto sizes = leaf.sizes().vec();
      sizes.insert(sizes.begin(), room_);
      columns_.push_back(at::empty(sizes, leaf.options()));
    }
  }

  void close() {
    if (used_ == 0) return;
    const std::vector<Tensor> rows = narrow_rows(columns_, 0, used_);
    std::vector<Tensor> kept;
    for (const Tensor& column : rows) kept.push_back(used_ == room_ ? column : column.clone());
    store_.push_back(std::make_shared<const Table>(kept, keys_));
    used_ = 0;
  }

  int64_t cardinality_;  // of the input, where known: no more room is made than it needs
  int64_t added_ = 0;
  Store store_;
  std::vector<Tensor> columns_;  // the open table: used_ of room_ rows are filled
  Keys keys_;
  int64_t room_ = 0;
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
    if (input_->next(element)) {
      builder_.add(element);
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
  Node node = *input;
  node.iterate = [input, cache](const std::stop_token& stop) -> std::unique_ptr<Iterator> {
    std::unique_lock lock(cache->mutex);
    if (cache->store) return std::make_unique<StoreIterator>(cache->store);
    lock.unlock();
    return std::make_unique<FillingIterator>(input->iterate(stop), cache, input->cardinality);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
