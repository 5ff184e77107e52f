#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti {

class GradientGroup;

// Notes of which groups gradients are read in global view, until the end of the block, where processes train together:
// such a read may be a reduction, which all of them make. Threads: the one that has the block, and those of replicas
// that run in it and meet.
class GradientReads {
 public:
  struct Read {
    std::shared_ptr<GradientGroup> group;
    bool reduces;  // whether the first one does
  };

  GradientReads() : outer_(std::exchange(current_, this)) {}
  ~GradientReads() { current_ = outer_; }
  GradientReads(const GradientReads&) = delete;
  GradientReads& operator=(const GradientReads&) = delete;

  // The calling thread is in this block too, until the end of its own.
  class OnThread {
   public:
    explicit OnThread(GradientReads* block) : before_(std::exchange(current_, block)) {}
    ~OnThread() { current_ = before_; }
    OnThread(const OnThread&) = delete;
    OnThread& operator=(const OnThread&) = delete;

   private:
    GradientReads* before_;
  };

  // The innermost block of the calling thread; null: none.
  static GradientReads* current() { return current_; }
  static void note(const std::shared_ptr<GradientGroup>& group, bool reduces) {
    for (GradientReads* block = current_; block; block = block->outer_) block->add(group, reduces);
  }
  // What was read in the block, in the order of the first reads. Requires: no replica runs.
  const std::vector<Read>& reads() const { return reads_; }

 private:
  void add(const std::shared_ptr<GradientGroup>& group, bool reduces) {
    const std::lock_guard lock(mutex_);
    for (const Read& read : reads_)
      if (read.group == group) return;
    reads_.push_back({group, reduces});
  }

  static constinit inline thread_local GradientReads* current_ = nullptr;
  GradientReads* outer_;
  std::mutex mutex_;
  std::vector<Read> reads_;
};

}  // namespace tutti
