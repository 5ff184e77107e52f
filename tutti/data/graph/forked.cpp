#include "tutti/data/graph/forked.h"

#include <pthread.h>

#include <atomic>

#include "tutti/core/error.h"

namespace tutti::data::graph {
namespace {

// How many forks lead from the first process to this one.
const std::atomic<int>& generation() {
  static std::atomic<int> forks = 0;
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  return forks;
}

class OfOneProcess : public Iterator {
 public:
  explicit OfOneProcess(std::unique_ptr<Iterator> iterator)
      : iterator_(std::move(iterator)), generation_(generation()) {}
  ~OfOneProcess() override {
    if (generation() != generation_) (void)iterator_.release();
  }

  bool next(Element& element) override { return here().next(element); }
  void save(StateWriter& state) override { here().save(state); }
  void restore(StateReader& state) override { here().restore(state); }

 private:
  Iterator& here() const {
    if (generation().load(std::memory_order_relaxed) != generation_)
      throw Error(ErrorCode::failed_precondition,
                  "Dataset: an iterator with threads was made by another process, of which this one is a fork; begin "
                  "one here");
    return *iterator_;
  }

  std::unique_ptr<Iterator> iterator_;
  int generation_;
};

}  // namespace

std::unique_ptr<Iterator> of_this_process(std::unique_ptr<Iterator> iterator) {
  return std::make_unique<OfOneProcess>(std::move(iterator));
}

}  // namespace tutti::data::graph
