#include <algorithm>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/rebatch_for_replicas.h"

namespace tutti::data::graph {
namespace {

// Cuts the rows of all input batches, one after the other, into batches of the given sizes, used cyclically.
class RebatchIterator : public Iterator {
 public:
  RebatchIterator(std::unique_ptr<Iterator> input, std::vector<int64_t> sizes, const RebatchOptions& options)
      : input_(std::move(input)), sizes_(std::move(sizes)), options_(options) {}

  bool next(Element& element) override {
    const int64_t wanted = sizes_[slot_];
    if (wanted == 0 && leaves_.empty()) load();
    while (rows_ < wanted && load()) {
      const int64_t count = std::min(wanted - rows_, num_rows_ - row_);
      pieces_.push_back(narrow_rows(leaves_, row_, count));
      row_ += count;
      rows_ += count;
    }
    slot_ = (slot_ + 1) % sizes_.size();
    const int64_t rows = std::exchange(rows_, 0);
    const std::vector<std::vector<Leaf>> pieces = std::exchange(pieces_, {});
    if (wanted == 0) return empty_batch(element);
    if (rows == 0 || (options_.drop_remainder && rows < wanted)) return false;
    element = Element(join(pieces), keys_);
    return true;
  }

  // Of the batch that is being cut, only what is left: no rows are kept for the shape that a slot of size 0 needs.
  void save(StateWriter& state) override {
    state.op("rebatch", arguments());
    input_->save(state);
    state.number(static_cast<int64_t>(slot_));
    state.number(ended_);
    state.number(static_cast<int64_t>(pieces_.size()));
    for (const auto& piece : pieces_) state.table(std::make_shared<const Table>(piece, keys_));
    state.number(!leaves_.empty());
    if (!leaves_.empty())
      state.table(std::make_shared<const Table>(narrow_rows(leaves_, row_, num_rows_ - row_), keys_));
  }
  void restore(StateReader& state) override {
    state.op("rebatch", arguments());
    input_->restore(state);
    slot_ = static_cast<size_t>(state.number_in(0, static_cast<int64_t>(sizes_.size()) - 1));
    ended_ = state.flag();
    for (int64_t left = state.number_in(0, INT64_MAX); left > 0; --left) {
      const auto piece = state.table();
      pieces_.push_back(piece->columns());
      rows_ += piece->num_rows();
    }
    if (rows_ > 0 && rows_ >= sizes_[slot_]) state.refuse(str("a batch of ", rows_, " rows is not full"));
    if (!state.flag()) return;
    const auto rest = state.table();
    leaves_ = rest->columns();
    keys_ = rest->keys();
    num_rows_ = rest->num_rows();
  }

 private:
  std::vector<int64_t> arguments() const {
    std::vector<int64_t> arguments = sizes_;
    arguments.push_back(options_.drop_remainder);
    return arguments;
  }

  // Makes rows of the input available, or returns false at its end.
  bool load() {
    while (!ended_ && row_ == num_rows_) {
      Element batch;
      ended_ = !input_->next(batch);
      if (ended_) break;
      std::vector<Leaf> leaves = batch.leaves();
      num_rows_ = num_rows(leaves, "rebatch");
      row_ = 0;
      leaves_ = std::move(leaves);
      keys_ = batch.keys();
    }
    return !ended_;
  }

  // A slot of size 0 needs no input but for the shape of its rows, and comes until the end of the input was met.
  bool empty_batch(Element& element) const {
    if (ended_) return false;
    element = Element(narrow_rows(leaves_, 0, 0), keys_);
    return true;
  }

  static std::vector<Leaf> join(const std::vector<std::vector<Leaf>>& pieces) {
    if (pieces.size() == 1) return pieces.front();
    std::vector<Leaf> joined;
    for (size_t leaf = 0; leaf < pieces.front().size(); ++leaf) {
      std::vector<Leaf> parts;
      for (const auto& piece : pieces) parts.push_back(piece.at(leaf));
      joined.push_back(concatenate_rows(parts));
    }
    return joined;
  }

  std::unique_ptr<Iterator> input_;
  std::vector<int64_t> sizes_;
  RebatchOptions options_;
  size_t slot_ = 0;
  bool ended_ = false;
  std::vector<std::vector<Leaf>> pieces_;  // of a batch that is not full, when an error came out
  int64_t rows_ = 0;                       // in them
  std::vector<Leaf> leaves_;               // the input batch that is being cut, from row_ on
  Keys keys_;
  int64_t row_ = 0;
  int64_t num_rows_ = 0;
};

}  // namespace

NodePtr rebatch(const NodePtr& input, std::vector<int64_t> sizes, const RebatchOptions& options) {
  const bool negative = std::ranges::any_of(sizes, [](int64_t size) { return size < 0; });
  const bool all_zero = std::ranges::all_of(sizes, [](int64_t size) { return size == 0; });
  if (negative || all_zero)
    throw Error(ErrorCode::invalid_argument,
                str("rebatch: sizes ", str_list(sizes), "; none may be negative and at least one must be positive"));
  if (input->batch_size == kNotBatched)
    throw Error(ErrorCode::invalid_argument, "rebatch: the elements are scalars; call batch first");
  Node node = after(input, [=](const NodePtr& other) { return rebatch(other, sizes, options); });
  node.cardinality = input->cardinality == kInfinite ? kInfinite : kUnknown;
  node.batch_size = kUnknown;
  node.uniform = false;
  node.iterate = [=](const Context& context) {
    return std::make_unique<RebatchIterator>(input->iterate(context), sizes, options);
  };
  return std::make_shared<const Node>(std::move(node));
}

NodePtr rebatch_for_replicas(const NodePtr& input, std::vector<int64_t> sizes) {
  Node node = *rebatch(input, sizes, {});
  node.rebuild = [sizes](const std::vector<NodePtr>& inputs) { return rebatch_for_replicas(inputs.at(0), sizes); };
  node.role = Role::rebatch;
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
