#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/forked.h"
#include "tutti/data/graph/ops.h"
#include "tutti/data/graph/pipeline_scope.h"

namespace tutti::data::graph {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Clock::duration kShortestFullNap = std::chrono::microseconds(20),
                          kLongestFullNap = std::chrono::milliseconds(10);

constexpr int64_t kMostBytes = 256 << 20;  // of elements in a buffer that grows

// Of the tensors in it.
int64_t num_bytes(const Element& element) {
  int64_t bytes = 0;
  for (const Leaf& leaf : element.leaves())
    if (const auto* tensor = std::get_if<Tensor>(&leaf)) bytes += static_cast<int64_t>(tensor->nbytes());
  return bytes;
}

// A thread of its own makes up to `capacity` elements ready. While the buffer is full it takes naps, of about the time
// in which the consumer uses a quarter of it: so the consumer, which would spend more on waking it than on all else,
// wakes it where nothing is left, and never else. Destruction waits for the element that is being made, not for a
// buffer that is being filled: see Node::iterate.
class PrefetchIterator : public Iterator {
 public:
  PrefetchIterator(const NodePtr& input, int64_t capacity, const Context& context)
      : consumer_stop_(context.stop),
        grows_(capacity == kAutotune),
        capacity_(grows_ ? 1 : static_cast<size_t>(capacity)),
        dataset_(input),
        input_(input->iterate(context.stopped_by(stop_.get_token()))) {}

  ~PrefetchIterator() override { stop_.request_stop(); }

  bool next(Element& element) override {
    std::unique_lock lock(mutex_);
    if (!thread_.joinable() && !ended_) start();
    const auto ready = [this] { return !made_.empty() || ended_; };
    const bool lacks = grows_ && made_.empty() && was_full_;
    was_full_ |= made_.size() >= capacity_;
    if (!ready() && !not_empty_.wait(lock, consumer_stop_, ready))
      throw Error(ErrorCode::cancelled, "prefetch: the consumer is gone");
    if (made_.empty()) return false;
    Made made = std::move(made_.front());
    made_.pop_front();
    note_take();
    if (lacks && !made.error) grow(made.element);
    const bool wake = made_.empty();
    lock.unlock();
    if (wake) not_full_.notify_one();
    if (made.error) std::rethrow_exception(made.error);
    element = std::move(made.element);
    return true;
  }

  // The thread finishes the element that it makes, and waits until all is written.
  void save(StateWriter& state) override {
    const Pause pause(*this);
    state.op("prefetch");
    state.graph(*dataset_);
    state.number(ended_);
    input_->save(state);
    state.number(static_cast<int64_t>(made_.size()));
    for (const Made& made : made_) {
      state.number(made.error != nullptr);
      if (made.error)
        state.error(made.error);
      else
        state.element(made.element);
    }
  }
  void restore(StateReader& state) override {
    state.op("prefetch");
    state.graph(*dataset_);
    ended_ = state.flag();
    input_->restore(state);
    for (int64_t left = state.number_in(0, INT64_MAX); left > 0; --left) {
      Made& made = made_.emplace_back();
      if (state.flag())
        made.error = state.error();
      else
        made.element = state.element();
    }
  }

 private:
  struct Made {
    Element element;
    std::exception_ptr error;
  };

  // While it lives, the thread is not at the input, nor are the elements changed.
  class Pause {
   public:
    explicit Pause(PrefetchIterator& iterator) : iterator_(iterator) {
      std::unique_lock lock(iterator_.mutex_);
      iterator_.paused_ = true;
      iterator_.not_full_.notify_one();
      iterator_.away_from_input_.wait(lock, [this] { return !iterator_.at_input_; });
    }
    ~Pause() {
      const std::scoped_lock lock(iterator_.mutex_);
      iterator_.paused_ = false;
      iterator_.not_full_.notify_one();
    }
    Pause(const Pause&) = delete;

   private:
    PrefetchIterator& iterator_;
  };

  // Not before the first element is asked for, so that nobody is at the input while its state is restored.
  void start() {
    at_input_ = true;
    thread_ = std::jthread([this] { produce(); });
  }

  void produce() {
    const PipelineScope scope;
    while (!stop_.stop_requested()) {
      Made made;
      try {
        if (!input_->next(made.element)) return end();
      } catch (...) {
        made.error = std::current_exception();
      }
      if (!put(std::move(made))) return;
    }
  }

  // Returns false if the consumer is gone. For a pause, the buffer takes one element more.
  bool put(Made made) {
    std::unique_lock lock(mutex_);
    if (!wait_for_room(lock)) return false;
    made_.push_back(std::move(made));
    if (paused_) {
      at_input_ = false;
      away_from_input_.notify_one();
      if (!not_full_.wait(lock, stop_.get_token(), [this] { return !paused_; })) return false;
      at_input_ = true;
    }
    lock.unlock();
    not_empty_.notify_one();
    return true;
  }

  // The consumer had to wait although the buffer had been full: twice as much might have been enough. TF:
  // PrefetchAutotuner.
  void grow(const Element& element) {
    was_full_ = false;
    if (static_cast<int64_t>(2 * capacity_) * std::max<int64_t>(1, num_bytes(element)) < kMostBytes) capacity_ *= 2;
  }

  // Of the time between two elements that the consumer takes; one that is long for once counts little.
  void note_take() {
    const auto now = Clock::now();
    interval_ = std::min(now - last_take_, 2 * interval_);
    last_take_ = now;
  }

  // Returns false if the consumer is gone.
  bool wait_for_room(std::unique_lock<std::mutex>& lock) {
    if (made_.size() < capacity_ || paused_) return true;
    const auto is_woken = [this] { return made_.empty() || paused_; };
    auto nap = std::clamp<Clock::duration>(interval_ * static_cast<int64_t>(std::min<size_t>(capacity_, 1024)) / 4,
                                           kShortestFullNap, kLongestFullNap);
    for (; made_.size() >= capacity_ && !paused_; nap = std::min(2 * nap, kLongestFullNap)) {
      not_full_.wait_for(lock, stop_.get_token(), nap, is_woken);
      if (stop_.stop_requested()) return false;
    }
    return true;
  }

  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    at_input_ = false;
    away_from_input_.notify_one();
    not_empty_.notify_one();
  }

  std::stop_token consumer_stop_;
  const bool grows_;
  std::mutex mutex_;
  std::condition_variable_any not_empty_;
  std::condition_variable_any not_full_;
  std::condition_variable_any away_from_input_;
  size_t capacity_;        // guarded by mutex_, as the next seven
  bool was_full_ = false;  // since it last grew
  std::deque<Made> made_;
  bool ended_ = false;
  bool paused_ = false;
  bool at_input_ = false;  // the thread is, or has an element of it in hand
  Clock::time_point last_take_ = Clock::now();
  Clock::duration interval_ = kShortestFullNap;
  std::stop_source stop_;
  NodePtr dataset_;                  // the input
  std::unique_ptr<Iterator> input_;  // its pass, used by thread_ alone, but for a pause
  std::jthread thread_;              // last: joined before the rest goes
};

}  // namespace

NodePtr prefetch(const NodePtr& input, int64_t buffer_size) {
  if (buffer_size < 1 && buffer_size != kAutotune)
    throw Error(ErrorCode::invalid_argument,
                str("prefetch: buffer_size ", buffer_size, "; it must be at least 1, or kAutotune"));
  Node node = after(input, [=](const NodePtr& other) { return prefetch(other, buffer_size); });
  node.role = Role::trailing;
  node.iterate = [=](const Context& context) {
    return of_this_process(std::make_unique<PrefetchIterator>(input, buffer_size, context));
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
