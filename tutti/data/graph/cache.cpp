#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "tutti/data/graph/ops.h"

namespace tutti::data::graph {
namespace {

using Store = std::vector<std::shared_ptr<const Table>>;

void save(const Store& store, StateWriter& state) {
  state.number(static_cast<int64_t>(store.size()));
  for (const auto& table : store) state.table(table);
}

Store restored_store(StateReader& state) {
  Store store;
  for (int64_t left = state.number_in(0, INT64_MAX); left > 0; --left) {
    store.push_back(state.table());
    if (store.back()->num_rows() == 0) state.refuse("a cache has a table of no rows");
  }
  return store;
}

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

  void save(StateWriter& state) const {
    state.number(static_cast<int64_t>(store_.size()) + (table_ != nullptr));
    for (const auto& table : store_) state.table(table, table->num_rows());
    if (table_) state.table(table_, used_);
  }
  void restore(StateReader& state) {
    store_ = restored_store(state);
    for (const auto& table : store_) added_ += table->num_rows();
    if (store_.empty()) return;
    table_ = std::move(store_.back());
    store_.pop_back();
    used_ = table_->num_rows();
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

class Cache : public SharedState, public std::enable_shared_from_this<Cache> {
 public:
  // Null until a pass came to its end.
  std::shared_ptr<const Store> get() const {
    const std::scoped_lock lock(mutex_);
    return store_;
  }
  void set(std::shared_ptr<const Store> store) {
    const std::scoped_lock lock(mutex_);
    store_ = std::move(store);
  }
  void set_if_empty(const std::shared_ptr<const Store>& store) {
    const std::scoped_lock lock(mutex_);
    if (!store_) store_ = store;
  }

  void save(StateWriter& state) const override {
    const auto store = get();
    state.op("elements of cache");
    state.number(store != nullptr);
    if (store) graph::save(*store, state);
  }
  void restore(StateReader& state) override {
    state.op("elements of cache");
    std::shared_ptr<const Store> store;
    if (state.flag()) store = std::make_shared<const Store>(restored_store(state));
    state.when_restored([self = shared_from_this(), store] { self->set(store); });
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Store> store_;
};

// Fills the cache, or reads it if that was done when the pass began. The input's passes are all alike, so that it makes
// no difference which of the two a pass does, or how far a thread came that was ahead of one that was left.
class CacheIterator : public Iterator {
 public:
  CacheIterator(NodePtr input, std::shared_ptr<Cache> cache, Context of_input)
      : input_(std::move(input)),
        cache_(std::move(cache)),
        of_input_(std::move(of_input)),
        store_(cache_->get()),
        builder_(input_->cardinality) {
    if (!store_) filling_ = input_->iterate(of_input_);
  }

  bool next(Element& element) override {
    if (filling_) return fill(element);
    if (table_ == store_->size()) return false;
    const auto& table = (*store_)[table_];
    element = Element(table, row_++);
    if (row_ == table->num_rows()) {
      ++table_;
      row_ = 0;
    }
    return true;
  }

  // Where it reads, the input's state is that of a pass that was not used, by which a state of another is refused.
  void save(StateWriter& state) override {
    state.op("cache");
    state.number(filling_ != nullptr);
    state.number(whole_);
    const auto unused = filling_ ? nullptr : input_->iterate(of_input_);
    (filling_ ? *filling_ : *unused).save(state);
    if (filling_) {
      builder_.save(state);
    } else {
      graph::save(*store_, state);
      state.number(static_cast<int64_t>(table_));
      state.number(row_);
    }
  }
  void restore(StateReader& state) override {
    state.op("cache");
    const bool is_filling = state.flag();
    whole_ = state.flag();
    if (!filling_) filling_ = input_->iterate(of_input_);
    filling_->restore(state);
    if (is_filling) {
      builder_.restore(state);
    } else {
      filling_.reset();
      store_ = std::make_shared<const Store>(restored_store(state));
      table_ = static_cast<size_t>(state.number_in(0, static_cast<int64_t>(store_->size())));
      row_ = state.number_in(0, table_ < store_->size() ? (*store_)[table_]->num_rows() - 1 : 0);
    }
  }

 private:
  // A pass that lacks an element keeps nothing: the next one may not.
  bool fill(Element& element) {
    const bool was_whole = std::exchange(whole_, false);  // unless nothing is thrown
    if (filling_->next(element)) {
      element = builder_.add(element);
      whole_ = was_whole;
      return true;
    }
    filling_.reset();
    store_ = std::make_shared<const Store>(builder_.finish());
    table_ = store_->size();
    if (was_whole) cache_->set_if_empty(store_);
    return false;
  }

  NodePtr input_;
  std::shared_ptr<Cache> cache_;
  const Context of_input_;
  std::shared_ptr<const Store> store_;  // what is read; while it is filled, nothing
  size_t table_ = 0;                    // in it
  int64_t row_ = 0;
  std::unique_ptr<Iterator> filling_;  // the pass over the input, null when reading
  bool whole_ = true;                  // no element of it has thrown
  StoreBuilder builder_;
};

}  // namespace

NodePtr cache(const NodePtr& input) {
  const auto cache = std::make_shared<Cache>();
  Node node = after(input, graph::cache);
  node.shared = cache;
  node.iterate = [input, cache](const Context& context) {
    return std::make_unique<CacheIterator>(input, cache, context.fixed());
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
