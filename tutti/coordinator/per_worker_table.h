#pragma once

#include <functional>
#include <source_location>
#include <string>
#include <typeindex>
#include <vector>

namespace tutti::coordinator {

// The PerWorker values of one coordinator, in the order in which every task makes them. One thread at a time.
class PerWorkerTable {
 public:
  using At = std::function<void*(int worker)>;  // null where the program has let the value go

  // Returns its number. `made`: where the program makes it.
  int add(std::type_index type, At at, std::source_location made = std::source_location::current()) {
    values_.push_back({type, std::move(at), made});
    return static_cast<int>(values_.size()) - 1;
  }
  // The value of a worker, made where it has none. Throws: what making it throws; failed_precondition for one that was
  // not made here, or is gone; data_loss for another type.
  void* at(int64_t number, std::type_index type, int worker) const;
  // A line for each.
  std::vector<std::string> describe() const;

 private:
  struct Value {
    std::type_index type;
    At at;
    std::source_location made;
  };
  std::vector<Value> values_;
};

}  // namespace tutti::coordinator
