#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/function/flat_arguments.h"

namespace tutti {

class Recorder;

// The elements that one call of a function takes of the iterators among its arguments, by next(). Threads: the one that
// makes the call.
class CallElements {
 public:
  // While it lives, next() on this thread takes of it. The name and the iterators must live as long.
  CallElements(const std::string& function, at::ArrayRef<ElementSource> iterators);
  ~CallElements();
  CallElements(const CallElements&) = delete;
  CallElements& operator=(const CallElements&) = delete;

  // What next() gives for an iterator, in a call or outside of all.
  static TakenElement next(const ElementSource& source);

  struct Element {
    int iterator;  // its number among the arguments
    TakenElement value;
    TakenApart tensors;
  };
  // Takes elements before the function runs, of the iterators of these numbers, one after the other.
  // Throws: out_of_range at the end of the data; what an element throws.
  void fetch(const std::vector<int>& iterators);
  // What next() takes while the function runs becomes arguments of this recorder's program, until it is over.
  void record_by(Recorder& recorder) { recorder_ = &recorder; }
  // Those that next() took, in their order, then those that were fetched alone.
  const std::vector<Element>& elements() const { return elements_; }
  // After the function has run. Throws: failed_precondition if it left elements that were fetched, which are lost.
  void check_all_taken() const;

 private:
  std::optional<int> number_of(const ElementSource& source) const;
  TakenElement take(int iterator);
  std::optional<Element> pull(int iterator);
  static std::optional<TakenElement> pull(CallElements* from, const ElementSource& source);
  bool has_fetched(int iterator) const;

  const std::string& function_;
  const at::ArrayRef<ElementSource> iterators_;
  CallElements* const outer_;  // of the function that makes the call, which runs as it is
  std::vector<Element> elements_;
  size_t num_taken_ = 0;
  Recorder* recorder_ = nullptr;
};

}  // namespace tutti
