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

// A thread of its own makes up to `capacity` elements ready, and more when half of them are used. Both sides sleep
// while they wait. Destruction waits for the element that is being made, not for a buffer that is being filled: see
// Node::iterate.
class PrefetchIterator : public Iterator {
 public:
  PrefetchIterator(const NodePtr& input, int64_t capacity, std::stop_token consumer_stop)
      : consumer_stop_(std::move(consumer_stop)),
        capacity_(static_cast<size_t>(capacity)),
        input_(input->iterate(stop_.get_token())),
        thread_([this] { produce(); }) {}

  ~PrefetchIterator() override { stop_.request_stop(); }

  bool next(Element& element) override {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return !elements_.empty() || ended_; };
    if (!ready() && !not_empty_.wait(lock, consumer_stop_, ready))
      throw Error(ErrorCode::cancelled, "prefetch: the consumer is gone");
    if (elements_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return false;
    }
    element = std::move(elements_.front());
    elements_.pop_front();
    const bool wake = 2 * elements_.size() <= capacity_;  // not for every element: a wake-up costs a microsecond
    lock.unlock();
    if (wake) not_full_.notify_one();
    return true;
  }

 private:
  void produce() {
    const PipelineScope scope;
    try {
      Element element;
      while (input_->next(element))
        if (!put(std::move(element))) return;
      end(nullptr);
    } catch (...) {
      end(std::current_exception());
    }
  }

  // Returns false if the consumer is gone.
  bool put(Element element) {
    std::unique_lock lock(mutex_);
    if (!not_full_.wait(lock, stop_.get_token(), [this] { return elements_.size() < capacity_; })) return false;
    elements_.push_back(std::move(element));
    lock.unlock();
    not_empty_.notify_one();
    return true;
  }

  void end(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    error_ = std::move(error);
    not_empty_.notify_one();
  }

  std::stop_token consumer_stop_;
  size_t capacity_;
  std::mutex mutex_;
  std::condition_variable_any not_empty_;
  std::condition_variable_any not_full_;
  std::deque<Element> elements_;  // guarded by mutex_, as the next two
  bool ended_ = false;
  std::exception_ptr error_;
  std::stop_source stop_;
  std::unique_ptr<Iterator> input_;  // used by thread_ alone
  std::jthread thread_;              // last: joined before the rest goes
};

}  // namespace

NodePtr prefetch(const NodePtr& input, int64_t buffer_size) {
  if (buffer_size < 1)
    throw Error(ErrorCode::invalid_argument, str("prefetch: buffer_size ", buffer_size, "; it must be at least 1"));
  Node node = after(input, [=](const NodePtr& other) { return prefetch(other, buffer_size); });
  node.role = Role::trailing;
  node.iterate = [=](const std::stop_token& stop) {
    return std::make_unique<PrefetchIterator>(input, buffer_size, stop);
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
