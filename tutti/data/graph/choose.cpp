#include <algorithm>
#include <cmath>
#include <numeric>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/call_text.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/passes.h"

namespace tutti::data::graph {
namespace {

// Says which dataset gives the next element.
class Choices {
 public:
  virtual ~Choices() = default;
  // An index, or nothing at the end; one that has `ended` may be chosen again, or not.
  virtual std::optional<size_t> next(const std::vector<bool>& ended) = 0;
  virtual void save(StateWriter& state) = 0;
  virtual void restore(StateReader& state) = 0;
};

class GivenChoices : public Choices {
 public:
  GivenChoices(std::unique_ptr<Iterator> indices, size_t num_datasets)
      : indices_(std::move(indices)), num_datasets_(num_datasets) {}

  std::optional<size_t> next(const std::vector<bool>&) override {
    Element element;
    if (!indices_->next(element)) return {};
    const std::vector<Leaf> leaves = std::move(element).leaves();
    const auto* tensor = leaves.size() == 1 ? std::get_if<Tensor>(&leaves.front()) : nullptr;
    if (!tensor || tensor->dim() != 0 || !at::isIntegralType(tensor->scalar_type(), /*includeBool=*/false))
      throw Error(ErrorCode::invalid_argument, "choose_from_datasets: a choice is not an integer scalar");
    const auto choice = tensor->item<int64_t>();
    if (choice < 0 || choice >= static_cast<int64_t>(num_datasets_))
      throw Error(ErrorCode::invalid_argument,
                  str("choose_from_datasets: a choice is ", choice, "; there are ", num_datasets_, " datasets"));
    return static_cast<size_t>(choice);
  }

  void save(StateWriter& state) override { indices_->save(state); }
  void restore(StateReader& state) override { indices_->restore(state); }

 private:
  std::unique_ptr<Iterator> indices_;
  size_t num_datasets_;
};

class RandomChoices : public Choices {
 public:
  RandomChoices(const std::vector<double>& weights, const Passes& passes, const Context& context)
      : weights_(weights), given_seed_(passes.given_seed(context)), random_(passes.seed_of(context)) {}

  std::optional<size_t> next(const std::vector<bool>& ended) override {
    for (size_t i = 0; i < weights_.size(); ++i)
      if (ended[i]) weights_[i] = 0;
    const double total = std::reduce(weights_.begin(), weights_.end());
    if (total <= 0) return {};
    double left = random_.uniform() * total;
    size_t choice = weights_.size();
    for (size_t i = 0; i < weights_.size() && left >= 0; ++i)
      if (weights_[i] > 0) left -= weights_[choice = i];
    return choice;
  }

  void save(StateWriter& state) override {
    state.given_seed(given_seed_);
    state.number(static_cast<int64_t>(random_.state()));
  }
  void restore(StateReader& state) override { random_ = SplitMix64(static_cast<uint64_t>(state.number())); }

 private:
  std::vector<double> weights_;  // 0 once a dataset has ended
  std::optional<uint64_t> given_seed_;
  SplitMix64 random_;
};

// TF: DirectedInterleaveDataset.
class ChooseIterator : public Iterator {
 public:
  ChooseIterator(std::string text, const std::vector<NodePtr>& inputs, std::unique_ptr<Choices> choices,
                 bool stop_on_empty_dataset, const Context& context)
      : text_(std::move(text)),
        choices_(std::move(choices)),
        ended_(inputs.size()),
        num_open_(inputs.size()),
        stop_on_empty_dataset_(stop_on_empty_dataset),
        stop_(context.stop) {
    const std::vector<uint64_t> parts = parts_of(inputs);
    for (size_t i = 0; i < inputs.size(); ++i) inputs_.push_back(inputs[i]->iterate(context.part(parts[i])));
  }

  bool next(Element& element) override {
    while (num_open_ > 0) {
      if (stop_.stop_requested()) throw Error(ErrorCode::cancelled, "choose_from_datasets: the consumer is gone");
      const auto choice = choices_->next(ended_);
      if (!choice) num_open_ = 0;
      if (!choice || ended_[*choice]) continue;
      if (inputs_[*choice]->next(element)) return true;
      ended_[*choice] = true;
      num_open_ = stop_on_empty_dataset_ ? 0 : num_open_ - 1;
    }
    return false;
  }

  void save(StateWriter& state) override {
    state.op(text_);
    for (const auto& input : inputs_) input->save(state);
    choices_->save(state);
    for (const bool ended : ended_) state.number(ended);
    state.number(static_cast<int64_t>(num_open_));
  }
  void restore(StateReader& state) override {
    state.op(text_);
    for (const auto& input : inputs_) input->restore(state);
    choices_->restore(state);
    for (size_t i = 0; i < ended_.size(); ++i) ended_[i] = state.flag();
    num_open_ = static_cast<size_t>(state.number_in(0, static_cast<int64_t>(inputs_.size())));
  }

 private:
  std::string text_;  // of the operation, with its arguments
  std::unique_ptr<Choices> choices_;
  std::vector<std::unique_ptr<Iterator>> inputs_;
  std::vector<bool> ended_;
  size_t num_open_;  // 0: the end
  bool stop_on_empty_dataset_;
  std::stop_token stop_;
};

void require_datasets(const std::vector<NodePtr>& inputs, const char* op) {
  if (inputs.empty()) throw Error(ErrorCode::invalid_argument, str(op, ": no datasets; there must be at least one"));
}

std::vector<double> checked_weights(const SampleOptions& options, size_t num_datasets) {
  if (options.weights.empty()) return std::vector<double>(num_datasets, 1.0);
  const auto usable = [](double weight) { return std::isfinite(weight) && weight >= 0; };
  const double total = std::reduce(options.weights.begin(), options.weights.end());
  if (options.weights.size() != num_datasets || !std::ranges::all_of(options.weights, usable) || !(total > 0) ||
      !std::isfinite(total))
    throw Error(ErrorCode::invalid_argument,
                str("sample_from_datasets: weights ", str_list(options.weights), " for ", num_datasets,
                    " datasets; there must be one for each, finite and not negative, and one must be positive"));
  return options.weights;
}

// How many elements follow if all that can be drawn are given.
int64_t sampled_cardinality(const std::vector<NodePtr>& inputs, const std::vector<double>& weights,
                            bool stop_on_empty) {
  std::vector<NodePtr> drawn;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (weights[i] > 0) drawn.push_back(inputs[i]);
  const auto infinite = [](const NodePtr& input) { return input->cardinality == kInfinite; };
  if (drawn.size() == 1 || std::ranges::all_of(drawn, infinite)) return drawn.front()->cardinality;
  return stop_on_empty ? kUnknown : total_cardinality(drawn);
}

NodePtr sampled(const std::vector<NodePtr>& inputs, const std::vector<double>& weights, const SampleOptions& options,
                const Seed& seed) {
  Node node =
      after_all(inputs, [=](const std::vector<NodePtr>& others) { return sampled(others, weights, options, seed); });
  node.cardinality = sampled_cardinality(inputs, weights, options.stop_on_empty_dataset);
  const auto passes = std::make_shared<Passes>("sample_from_datasets", seed, options.rerandomize_each_iteration);
  node.shared = passes;
  const std::string text =
      call_text("sample_from_datasets", weights, options.stop_on_empty_dataset, options.rerandomize_each_iteration);
  node.iterate = [=, stop_on_empty_dataset = options.stop_on_empty_dataset](const Context& context) {
    return std::make_unique<ChooseIterator>(text, inputs, std::make_unique<RandomChoices>(weights, *passes, context),
                                            stop_on_empty_dataset, context);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace

NodePtr choose_from(const std::vector<NodePtr>& inputs, const NodePtr& choices, const ChooseOptions& options) {
  require_datasets(inputs, "choose_from_datasets");
  Node node = after_all(inputs, [options](const std::vector<NodePtr>& others) {
    return choose_from({others.begin(), others.end() - 1}, others.back(), options);
  });
  node.inputs.push_back(choices);
  node.cardinality = kUnknown;
  const std::string text = call_text("choose_from_datasets", inputs.size(), options.stop_on_empty_dataset);
  node.iterate = [=](const Context& context) {
    return std::make_unique<ChooseIterator>(text, inputs,
                                            std::make_unique<GivenChoices>(choices->iterate(context), inputs.size()),
                                            options.stop_on_empty_dataset, context);
  };
  return std::make_shared<const Node>(std::move(node));
}

NodePtr sample_from(const std::vector<NodePtr>& inputs, const SampleOptions& options) {
  require_datasets(inputs, "sample_from_datasets");
  return sampled(inputs, checked_weights(options, inputs.size()), options, seed_or_drawn(options.seed));
}

}  // namespace tutti::data::graph
