#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

#include "tutti/coordinator/per_worker_table.h"

namespace tutti {

// A value of each worker, made there when a function first needs it; as an argument of schedule each function gets its
// worker's. What making it throws is thrown by that function, and the next one tries again. A handle.
// TF: tf.distribute.coordinator.PerWorkerValues.
template <class T>
class PerWorker {
 public:
  using value_type = T;

  // Of the workers of `owner`. For the library's own use, as what follows.
  PerWorker(std::shared_ptr<coordinator::PerWorkerTable> owner, int num_workers, std::function<T(int worker)> make,
            std::source_location made = std::source_location::current())
      : state_(std::make_shared<State>(State{std::move(owner), std::move(make),
                                             std::vector<std::optional<T>>(static_cast<size_t>(num_workers))})) {
    const auto at = [weak = std::weak_ptr(state_)](int worker) -> void* {
      const auto state = weak.lock();
      return state ? &state->at(worker) : nullptr;
    };
    state_->number = state_->owner->add(typeid(T), at, made);
  }

  const std::shared_ptr<coordinator::PerWorkerTable>& owner() const { return state_->owner; }
  int number() const { return state_->number; }  // among the owner's
  // On the worker's thread.
  T& at(int worker) const { return state_->at(worker); }

 private:
  struct State {
    T& at(int worker) {
      auto& value = values[static_cast<size_t>(worker)];
      if (!value) value.emplace(make(worker));
      return *value;
    }

    std::shared_ptr<coordinator::PerWorkerTable> owner;
    std::function<T(int worker)> make;
    std::vector<std::optional<T>> values;  // each is its worker's alone
    int number = -1;
  };
  std::shared_ptr<State> state_;
};

// A Dataset, or a DistributedDataset, of each worker. TF: what create_per_worker_dataset returns.
template <class Data>
class PerWorkerDataset {
 public:
  using Iterator = decltype(std::declval<const Data&>().begin());

  PerWorkerDataset(int num_workers, PerWorker<Data> data) : num_workers_(num_workers), data_(std::move(data)) {}

  // A new pass on each worker. TF: iter(…).
  PerWorker<Iterator> iterator(std::source_location made = std::source_location::current()) const {
    const auto begin = [data = data_](int worker) { return std::as_const(data.at(worker)).begin(); };
    return PerWorker<Iterator>(data_.owner(), num_workers_, begin, made);
  }

 private:
  int num_workers_;
  PerWorker<Data> data_;
};

}  // namespace tutti
