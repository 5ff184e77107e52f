#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace tutti {

class GradientGroup;

// Notes of which groups the calling thread reads gradients in global view, until the end of the block, where processes
// train together: such a read may be a reduction, which all of them make.
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

  // What was read in the block, in the order of the first reads.
  const std::vector<Read>& reads() const { return reads_; }
  static void note(const std::shared_ptr<GradientGroup>& group, bool reduces) {
    for (GradientReads* block = current_; block; block = block->outer_) block->add(group, reduces);
  }

 private:
  void add(const std::shared_ptr<GradientGroup>& group, bool reduces) {
    for (const Read& read : reads_)
      if (read.group == group) return;
    reads_.push_back({group, reduces});
  }

  static constinit inline thread_local GradientReads* current_ = nullptr;
  GradientReads* outer_;
  std::vector<Read> reads_;
};

}  // namespace tutti
