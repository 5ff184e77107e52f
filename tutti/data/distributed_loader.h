#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>

#include "tutti/core/per_replica.h"
#include "tutti/data/distributed_tensors.h"

namespace tutti::data {

// A torch::data loader, or any range of batches, each divided among the replicas as a batch of a dataset is. A batch is
// what structure.h takes (torch::data::Example<> with stacked tensors), or a vector of examples (a loader without
// Stack). Refers to the loader, which must live as long; one iteration at a time, as the loader says.
template <class Loader>
class DistributedLoader {
  using Inner = decltype(std::declval<Loader&>().begin());

 public:
  using Batch = std::remove_cvref_t<decltype(*std::declval<Inner&>())>;
  using value_type = PerReplica<Batch>;

  class Iterator {
   public:
    using value_type = PerReplica<Batch>;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(const DistributedLoader& source) : source_(&source), position_(source.loader_->begin()) {
      load();
    }

    const PerReplica<Batch>& operator*() const { return *value_; }
    const PerReplica<Batch>* operator->() const { return &*value_; }
    Iterator& operator++() {
      ++position_;
      load();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& iterator, std::default_sentinel_t) { return !iterator.value_; }

   private:
    void load() {
      value_.reset();
      if (!(position_ == source_->loader_->end()))
        value_ = distribute_tensors(Batch(*position_), source_->replicas_, source_->placer_);
    }

    const DistributedLoader* source_;
    Inner position_;
    std::optional<PerReplica<Batch>> value_;
  };

  DistributedLoader(Loader& loader, const LocalReplicas& replicas, Placer placer = {})
      : loader_(&loader), replicas_(replicas), placer_(std::move(placer)) {}

  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Loader* loader_;
  LocalReplicas replicas_;
  Placer placer_;
};

}  // namespace tutti::data
