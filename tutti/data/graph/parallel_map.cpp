#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/at_element.h"
#include "tutti/data/graph/element_draws.h"
#include "tutti/data/graph/forked.h"
#include "tutti/data/graph/num_threads.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/passes.h"
#include "tutti/data/graph/pipeline_scope.h"

namespace tutti::data::graph {
namespace {

using Clock = std::chrono::steady_clock;

// What waking a thread costs. An element that takes less is not worth one.
constexpr double kCheapMicroseconds = 6;
constexpr double kMostMicroseconds = 100;  // that one element counts for, as one during which the system was busy
constexpr size_t kCheapAhead = 64;         // how many cheap elements may be ready
constexpr auto kFirstNap = std::chrono::microseconds(50);
constexpr auto kLongestNap = std::chrono::microseconds(1000);

// Threads that take elements one after the other, and compute side by side; results come out in the input's order, or
// as they become ready. No lock is held while the input or the function runs, and whoever waits sleeps. Where elements
// are cheap, one thread makes many of them while the others and the consumer sleep: the consumer takes naps then, and
// wakes another thread if there was nothing for it after one.
class ParallelMapIterator : public Iterator {
 public:
  ParallelMapIterator(const NodePtr& input, std::shared_ptr<const MapFunction> function, ElementDraws draws,
                      const MapOptions& options, const char* op, const Context& context)
      : consumer_stop_(context.stop),
        function_(std::move(function)),
        draws_(draws),
        deterministic_(options.deterministic),
        op_(op),
        num_threads_(static_cast<size_t>(options.num_parallel_calls)),
        dataset_(input),
        input_(input->iterate(context.stopped_by(stop_.get_token()))) {}

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
    if (!ready()) wait_until(ready, lock);
    if (results_.empty()) return false;
    const std::shared_ptr<Result> result = std::move(*found);
    results_.erase(found);
    const bool wake = num_idle_ > 0 && 2 * results_.size() <= room();
    lock.unlock();
    if (wake) for_threads_.notify_one();
    if (result->error) std::rethrow_exception(result->error);
    element = std::move(result->element);
    return true;
  }

  // The threads finish what they compute, and wait until all is written.
  void save(StateWriter& state) override {
    const Pause pause(*this);
    state.op(form());
    state.graph(*dataset_);
    state.number(next_index_);
    draws_.save(state);
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
    state.op(form());
    state.graph(*dataset_);
    next_index_ = state.number_in(0, INT64_MAX);
    draws_.restore(state);
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
  std::string form() const { return draws_.op(str("parallel_", op_, deterministic_ ? "" : " in any order")); }

  // While it lives, no thread is at the input or computes.
  class Pause {
   public:
    explicit Pause(ParallelMapIterator& iterator) : iterator_(iterator) {
      std::unique_lock lock(iterator_.mutex_);
      iterator_.paused_ = true;
      iterator_.consumer_ = Consumer::waits;
      iterator_.for_consumer_.wait(lock, [this] {
        return !iterator_.taking_ && std::ranges::all_of(iterator_.results_, [](const auto& it) { return it->done; });
      });
      iterator_.consumer_ = Consumer::busy;
    }
    ~Pause() {
      const std::scoped_lock lock(iterator_.mutex_);
      iterator_.paused_ = false;
      iterator_.for_threads_.notify_all();
    }
    Pause(const Pause&) = delete;

   private:
    ParallelMapIterator& iterator_;
  };

  struct Result {
    Element element;
    int64_t index = 0;
    Clock::time_point begin = Clock::now();
    std::exception_ptr error;
    bool done = false;
  };
  enum class Consumer { busy, naps, waits };

  // Under the lock.
  bool is_cheap() const { return microseconds_ < kCheapMicroseconds; }
  size_t room() const { return is_cheap() ? std::max(2 * num_threads_, kCheapAhead) : 2 * num_threads_; }
  bool may_take() const { return ended_ || (!taking_ && !paused_ && results_.size() < room()); }

  // Throws: cancelled when the consumer's own consumer is gone.
  template <class Ready>
  void wait_until(const Ready& ready, std::unique_lock<std::mutex>& lock) {
    for (auto nap = kFirstNap;; nap = std::min(2 * nap, kLongestNap)) {
      consumer_ = is_cheap() ? Consumer::naps : Consumer::waits;
      const bool is_ready = is_cheap() ? for_consumer_.wait_for(lock, consumer_stop_, nap, ready)
                                       : for_consumer_.wait(lock, consumer_stop_, ready);
      consumer_ = Consumer::busy;
      if (is_ready) return;
      if (consumer_stop_.stop_requested()) throw Error(ErrorCode::cancelled, str(op_, ": the consumer is gone"));
      if (num_idle_ > 0 && may_take()) for_threads_.notify_one();
    }
  }

  void work() {
    const PipelineScope scope;
    while (const auto result = take()) {
      std::exception_ptr error;
      if (!result->error) try {
          const auto function = [&] { return (*function_)(std::move(result->element)); };
          result->element = at_element(op_, result->index, [&] { return draws_.call(result->index, function); });
        } catch (...) {
          error = std::current_exception();
        }
      finish(*result, error);
    }
  }

  void finish(Result& result, const std::exception_ptr& error) {
    const std::chrono::duration<double, std::micro> took = Clock::now() - result.begin;
    std::unique_lock lock(mutex_);
    if (error) result.error = error;
    result.done = true;
    microseconds_ += (std::min(took.count(), kMostMicroseconds) - microseconds_) / 8;
    const bool wake =
        consumer_ == Consumer::waits || (consumer_ == Consumer::naps && (!is_cheap() || 2 * results_.size() >= room()));
    lock.unlock();
    if (wake) for_consumer_.notify_one();
  }

  // The next element of the input, at its place among the results; null when there is nothing more to do.
  std::shared_ptr<Result> take() {
    std::unique_lock lock(mutex_);
    if (!may_take()) {  // else not even a wait that returns at once, which costs as much as a cheap element
      ++num_idle_;
      for_threads_.wait(lock, stop_.get_token(), [this] { return may_take(); });
      --num_idle_;
    }
    if (ended_ || stop_.stop_requested()) return nullptr;
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
    if (ended_)
      for_threads_.notify_all();
    else if (num_idle_ > 0 && !is_cheap() && may_take())
      for_threads_.notify_one();
    if ((ended_ && consumer_ != Consumer::busy) || (paused_ && consumer_ == Consumer::waits))
      for_consumer_.notify_one();
    return any ? result : nullptr;
  }

  std::stop_token consumer_stop_;
  std::shared_ptr<const MapFunction> function_;
  ElementDraws draws_;
  const bool deterministic_;
  const char* op_;
  const size_t num_threads_;
  std::mutex mutex_;
  std::condition_variable_any for_consumer_;
  std::condition_variable_any for_threads_;
  std::deque<std::shared_ptr<Result>>
      results_;  // guarded by mutex_, as what follows up to ended_; in the input's order
  Consumer consumer_ = Consumer::busy;
  size_t num_idle_ = 0;                      // threads that wait for room, or for another to come from the input
  double microseconds_ = kMostMicroseconds;  // that an element takes, lately
  int64_t next_index_ = 0;                   // of the input's next element
  bool taking_ = false;                      // a thread is at the input
  bool paused_ = false;                      // none may go there
  bool ended_ = false;                       // nothing more will be taken
  std::stop_source stop_;
  NodePtr dataset_;                  // the input
  std::unique_ptr<Iterator> input_;  // its pass, used by the thread that set taking_, or paused_ when no other is there
  std::vector<std::jthread> threads_;  // begun when the first result is asked for; last: joined before the rest goes
};

// A dataset that is rebuilt shares the passes' numbers.
NodePtr mapped_in_parallel(const NodePtr& input, const std::shared_ptr<const MapFunction>& function,
                           const std::shared_ptr<Passes>& passes, const MapOptions& options, const char* op) {
  Node node =
      after(input, [=](const NodePtr& other) { return mapped_in_parallel(other, function, passes, options, op); });
  node.batch_size = kUnknown;
  node.batch_size_of_rows = kUnknown;
  node.row_sizes_vary = false;
  node.shared = passes;
  node.iterate = [=](const Context& context) {
    return of_this_process(
        std::make_unique<ParallelMapIterator>(input, function, ElementDraws(passes, context), options, op, context));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace

NodePtr parallel_map(const NodePtr& input, MapFunction function, const MapOptions& options, const char* op) {
  MapOptions on_threads = options;
  on_threads.num_parallel_calls = num_threads(op, options.num_parallel_calls);
  const auto passes =
      options.seed ? std::make_shared<Passes>(op, seed_or_drawn(options.seed), /*again=*/true) : nullptr;
  return mapped_in_parallel(input, std::make_shared<const MapFunction>(std::move(function)), passes, on_threads, op);
}

}  // namespace tutti::data::graph
