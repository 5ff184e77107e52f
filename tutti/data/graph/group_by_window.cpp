#include <map>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/keeper.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/passes.h"

namespace tutti::data::graph {
namespace {

// Collects elements by key; a group that is full becomes a window, reduced and given out before anything more is read.
// Groups that are left at the end follow in the order of their keys. TF: GroupByWindowDataset.
class GroupByWindowIterator : public Iterator {
 public:
  GroupByWindowIterator(NodePtr input, std::shared_ptr<const GroupFunctions> functions, const Context& context,
                        Context of_functions)
      : input_(std::move(input)),
        functions_(std::move(functions)),
        op_(functions_->op.c_str()),
        of_functions_(std::move(of_functions)),
        keeper_(*input_),
        pass_(input_->iterate(context)) {}

  bool next(Element& element) override {
    while (true) {
      if (of_functions_.stop.stop_requested()) throw Error(ErrorCode::cancelled, str(op_, ": the consumer is gone"));
      if (reduced_ && reduced_->next(element)) return true;
      reduced_.reset();
      if (!ended_)
        collect();
      else if (!groups_.empty())
        begin_window(groups_.begin());
      else
        return false;
    }
  }

  void save(StateWriter& state) override {
    state.op(functions_->text);
    pass_->save(state);
    state.number(index_);
    state.number(num_windows_);
    state.number(ended_);
    state.number(static_cast<int64_t>(groups_.size()));
    for (const auto& [key, elements] : groups_) {
      state.number(key);
      state.elements(elements);
    }
    state.number(reduced_ != nullptr);
    if (!reduced_) return;
    state.number(key_);
    state.elements(*window_->elements);
    state.graph(*dataset_);
    reduced_->save(state);
  }

  void restore(StateReader& state) override {
    state.op(functions_->text);
    pass_->restore(state);
    index_ = state.number_in(0, INT64_MAX);
    num_windows_ = state.number_in(0, INT64_MAX);
    ended_ = state.flag();
    for (int64_t left = state.number_in(0, INT64_MAX); left > 0; --left) {
      const int64_t key = state.number();
      groups_[key] = state.elements();
    }
    if (!state.flag()) return;
    key_ = state.number();
    --num_windows_;
    reduce(state.elements());
    state.graph(*dataset_);
    reduced_->restore(state);
  }

 private:
  using Groups = std::map<int64_t, std::vector<Element>>;

  // Takes one element of the input.
  void collect() {
    Element element;
    ended_ = !pass_->next(element);
    if (ended_) return;
    const auto [key, size] = at_element(op_, index_++, [&] {
      const int64_t key = functions_->key(element);
      return std::pair(key, functions_->window_size(key));
    });
    if (size < 1)
      throw Error(ErrorCode::invalid_argument,
                  str(op_, ": a window size of ", size, " for the key ", key, "; it must be at least 1"));
    const auto group = groups_.try_emplace(key).first;
    group->second.push_back(keeper_(std::move(element)));
    if (group->second.size() >= static_cast<size_t>(size)) begin_window(group);
  }

  void begin_window(Groups::iterator group) {
    key_ = group->first;
    std::vector<Element> elements = std::move(group->second);
    groups_.erase(group);
    reduce(std::move(elements));
  }

  void reduce(std::vector<Element> elements) {
    window_ = from_elements(std::move(elements), input_);
    const int64_t number = num_windows_++;
    dataset_ = at_element(op_, index_ - 1, [&] { return functions_->reduce(key_, window_); });
    reduced_ = dataset_->iterate(of_functions_.part(static_cast<uint64_t>(number)));
  }

  NodePtr input_;
  std::shared_ptr<const GroupFunctions> functions_;
  const char* op_;
  const Context of_functions_;  // of the datasets that windows are reduced to
  const Keeper keeper_;
  std::unique_ptr<Iterator> pass_;
  int64_t index_ = 0;        // of the input's next element
  int64_t num_windows_ = 0;  // that were begun
  bool ended_ = false;
  Groups groups_;
  int64_t key_ = 0;  // of the window at hand, as the next three
  NodePtr window_;
  NodePtr dataset_;                    // that it was reduced to
  std::unique_ptr<Iterator> reduced_;  // null between windows
};

}  // namespace

NodePtr group_by_window(const NodePtr& input, GroupFunctions functions) {
  const auto shared = std::make_shared<const GroupFunctions>(std::move(functions));
  Node node = after(input, [shared](const NodePtr& other) { return group_by_window(other, *shared); });
  node.cardinality = input->cardinality == kInfinite ? kInfinite : kUnknown;
  node.batch_size = kUnknown;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  node.uniform = false;
  const auto passes = std::make_shared<Passes>(shared->op, Seed(), /*again=*/true);
  node.shared = passes;
  node.iterate = [=](const Context& context) {
    return std::make_unique<GroupByWindowIterator>(input, shared, context, passes->of_functions(context));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
