#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/pipeline_scope.h"

namespace tutti::data::graph {
namespace {

// Threads that take elements one after the other, and compute side by side; results come out in the input's order, or
// as they become ready. No lock is held while the input or the function runs, and whoever waits sleeps.
class ParallelMapIterator : public Iterator {
 public:
  ParallelMapIterator(const NodePtr& input, std::shared_ptr<const MapFunction> function, const MapOptions& options,
                      const char* op, std::stop_token consumer_stop)
      : consumer_stop_(std::move(consumer_stop)),
        function_(std::move(function)),
        deterministic_(options.deterministic),
        op_(op),
        num_threads_(static_cast<size_t>(options.num_parallel_calls)),
        dataset_(input),
        input_(input->iterate(stop_.get_token())) {}

  ~ParallelMapIterator() override { stop_.request_stop(); }

  bool next(Element& element) override {
    std::unique_lock lock(mutex_);
    while (threads_.size() < num_threads_ && !ended_) threads_.emplace_back([this] { work(); });
    auto found = results_.end();
    const auto ready = [&] {
      found = std::ranges::find_if(results_, [](const auto& result) { return result->done; });
      if (deterministic_ && found != results_.begin()) found = results_.end();
      return found != results_.end() || (results_.empty() && ended_);
    };
    if (!changed_.wait(lock, consumer_stop_, ready))
      throw Error(ErrorCode::cancelled, str(op_, ": the consumer is gone"));
    if (results_.empty()) return false;
    const std::shared_ptr<Result> result = std::move(*found);
    results_.erase(found);
    lock.unlock();
    changed_.notify_all();
    if (result->error) std::rethrow_exception(result->error);
    element = std::move(result->element);
    return true;
  }

  // The threads finish what they compute, and wait until all is written.
  void save(StateWriter& state) override {
    const Pause pause(*this);
    state.op("parallel_map");
    state.graph(*dataset_);
    state.number(next_index_);
    state.number(ended_);
    input_->save(state);
    state.number(static_cast<int64_t>(results_.size()));
    for (const auto& result : results_) {
      state.number(result->error != nullptr);
      if (result->error)
        state.error(result->error);
      else
        state.element(result->element);
    }
  }
  void restore(StateReader& state) override {
    state.op("parallel_map");
    state.graph(*dataset_);
    next_index_ = state.number_in(0, INT64_MAX);
    ended_ = state.flag();
    input_->restore(state);
    for (int64_t left = state.number_in(0, INT64_MAX); left > 0; --left) {
      const auto& result = results_.emplace_back(std::make_shared<Result>());
      result->done = true;
      if (state.flag())
        result->error = state.error();
      else
        result->element = state.element();
    }
  }

 private:
  // While it lives, no thread is at the input or computes.
  class Pause {
   public:
    explicit Pause(ParallelMapIterator& iterator) : iterator_(iterator) {
      std::unique_lock lock(iterator_.mutex_);
      iterator_.paused_ = true;
      iterator_.changed_.wait(lock, [this] {
        return !iterator_.taking_ && std::ranges::all_of(iterator_.results_, [](const auto& it) { return it->done; });
      });
    }
    ~Pause() {
      const std::scoped_lock lock(iterator_.mutex_);
      iterator_.paused_ = false;
      iterator_.changed_.notify_all();
    }
    Pause(const Pause&) = delete;

   private:
    ParallelMapIterator& iterator_;
  };

  struct Result {
    Element element;
    int64_t index = 0;
    std::exception_ptr error;
    bool done = false;
  };

  void work() {
    const PipelineScope scope;
    while (const auto result = take()) {
      std::exception_ptr error;
      if (!result->error) try {
          result->element = at_element(op_, result->index, [&] { return (*function_)(std::move(result->element)); });
        } catch (...) {
          error = std::current_exception();
        }
      const std::scoped_lock lock(mutex_);
      if (error) result->error = error;
      result->done = true;
      changed_.notify_all();
    }
  }

  // The next element of the input, at its place among the results; null when there is nothing more to do.
  std::shared_ptr<Result> take() {
    std::unique_lock lock(mutex_);
    const auto may_take = [this] { return ended_ || (!taking_ && !paused_ && results_.size() < 2 * num_threads_); };
    if (!changed_.wait(lock, stop_.get_token(), may_take) || ended_ || stop_.stop_requested()) return nullptr;
    taking_ = true;
    lock.unlock();
    auto result = std::make_shared<Result>();
    bool any = true;
    try {
      any = input_->next(result->element);
    } catch (...) {
      result->error = std::current_exception();
    }
    lock.lock();
    taking_ = false;
    ended_ = ended_ || !any;
    result->index = next_index_;
    if (!result->error) ++next_index_;
    if (any) results_.push_back(result);
    changed_.notify_all();
    return any ? result : nullptr;
  }

  std::stop_token consumer_stop_;
  std::shared_ptr<const MapFunction> function_;
  const bool deterministic_;
  const char* op_;
  const size_t num_threads_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Result>> results_;  // guarded by mutex_, as the next four; in the input's order
  int64_t next_index_ = 0;                       // of the input's next element
  bool taking_ = false;                          // a thread is at the input
  bool paused_ = false;                          // none may go there
  bool ended_ = false;                           // nothing more will be taken
  std::stop_source stop_;
  NodePtr dataset_;                  // the input
  std::unique_ptr<Iterator> input_;  // its pass, used by the thread that set taking_, or paused_ when no other is there
  std::vector<std::jthread> threads_;  // begun when the first result is asked for; last: joined before the rest goes
};

}  // namespace

NodePtr parallel_map(const NodePtr& input, MapFunction function, const MapOptions& options, const char* op) {
  if (options.num_parallel_calls < 1)
    throw Error(ErrorCode::invalid_argument,
                str(op, ": num_parallel_calls ", options.num_parallel_calls, "; it must be at least 1, or left out"));
  const auto shared = std::make_shared<const MapFunction>(std::move(function));
  Node node = after(input, [=](const NodePtr& other) { return parallel_map(other, *shared, options, op); });
  node.batch_size = kUnknown;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  node.iterate = [=](const std::stop_token& stop) {
    return std::make_unique<ParallelMapIterator>(input, shared, options, op, stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
