#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tutti/core/function_ref.h"

namespace tutti {

using Tensor = at::Tensor;

// What LibTorch's graphs keep for their backward passes, apart from the graphs: so that a graph may be run again with
// the values of another call, and holds no memory by itself. Threads: one at a time.
class SavedValues : public std::enable_shared_from_this<SavedValues> {
 public:
  // Until the end of the block, what the thread's new graphs save is kept here.
  class Guard {
   public:
    explicit Guard(std::shared_ptr<SavedValues> values);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    std::shared_ptr<SavedValues> before_;
  };

  // The values that graphs still keep, in the order in which they were saved; undefined where it was written since.
  std::vector<Tensor> values();
  // Lets go of these values. They have numbers in their order, by which graphs have them from a Source alone.
  void let_go();

  // Until the end of the block, graphs get the value of a number from the callback.
  using Give = FunctionRef<Tensor(size_t number)>;
  class Source {
   public:
    Source(SavedValues& values, Give give);
    ~Source();
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

   private:
    SavedValues& values_;
    Give give_;
  };

 private:
  class Hook;
  struct Entry {
    Tensor value;
    uint32_t version;
    bool kept = true;
    int number = -1;  // once it was taken
  };

  size_t keep(const Tensor& tensor);
  Tensor give(size_t place);
  void forget(size_t place);

  std::mutex mutex_;  // of entries_: a graph may be dropped by any thread
  std::vector<Entry> entries_;
  const Give* source_ = nullptr;
};

// Throws LibTorch's error where a saved value is of another version than it was when it was saved.
void check_version(const Tensor& value, uint32_t now, uint32_t saved);

}  // namespace tutti
