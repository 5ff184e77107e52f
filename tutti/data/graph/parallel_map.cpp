#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/pipeline_scope.h"

namespace tutti::data::graph {
namespace {

// Threads that take elements one after the other, and compute side by side; results come out in the input's order. No
// lock is held while the input or the function runs, and whoever waits sleeps.
class ParallelMapIterator : public Iterator {
 public:
  ParallelMapIterator(const NodePtr& input, std::shared_ptr<const MapFunction> function, int num_threads,
                      std::stop_token consumer_stop)
      : consumer_stop_(std::move(consumer_stop)),
        function_(std::move(function)),
        max_results_(2 * static_cast<size_t>(num_threads)),
        input_(input->iterate(stop_.get_token())) {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { work(); });
  }

  ~ParallelMapIterator() override { stop_.request_stop(); }

  bool next(Element& element) override {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return results_.empty() ? ended_ : results_.front()->done; };
    if (!changed_.wait(lock, consumer_stop_, ready)) throw Error(ErrorCode::cancelled, "map: the consumer is gone");
    if (results_.empty()) return false;
    const std::shared_ptr<Result> result = std::move(results_.front());
    results_.pop_front();
    if (result->error) ended_ = true;
    lock.unlock();
    changed_.notify_all();
    if (result->error) std::rethrow_exception(result->error);
    element = std::move(result->element);
    return true;
  }

 private:
  struct Result {
    Element element;
    std::exception_ptr error;
    bool done = false;
  };

  void work() {
    const PipelineScope scope;
    while (const auto result = take()) {
      std::exception_ptr error;
      if (!result->error) try {
          result->element = (*function_)(std::move(result->element));
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
    const auto may_take = [this] { return ended_ || (!taking_ && results_.size() < max_results_); };
    if (!changed_.wait(lock, stop_.get_token(), may_take) || ended_) return nullptr;
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
    ended_ = ended_ || !any || result->error;
    if (any) results_.push_back(result);
    changed_.notify_all();
    return any ? result : nullptr;
  }

  std::stop_token consumer_stop_;
  std::shared_ptr<const MapFunction> function_;
  const size_t max_results_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<Result>> results_;  // guarded by mutex_, as the next two; in the input's order
  bool taking_ = false;                          // a thread is at the input
  bool ended_ = false;                           // nothing more will be taken
  std::stop_source stop_;
  std::unique_ptr<Iterator> input_;    // used by the thread that set taking_
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace

NodePtr parallel_map(const NodePtr& input, MapFunction function, int num_threads) {
  if (num_threads < 1)
    throw Error(ErrorCode::invalid_argument,
                str("map: num_parallel_calls ", num_threads, "; it must be at least 1, or left out"));
  const auto shared = std::make_shared<const MapFunction>(std::move(function));
  Node node = after(input, [=](const NodePtr& other) { return parallel_map(other, *shared, num_threads); });
  node.batch_size = kUnknown;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  node.iterate = [=](const std::stop_token& stop) {
    return std::make_unique<ParallelMapIterator>(input, shared, num_threads, stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
