#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "tutti/tensor/plan.h"

namespace tutti {

struct OperatorInfo;

// The plans of one op, found by layouts, sizes and integer arguments. Of a number that an op computes with (a Scalar,
// or any floating point argument) the kind alone tells plans apart: a program that adds its step's number has one plan.
class PlanCache {
 public:
  using Key = c10::SmallVector<int64_t, 32>;
  // `strides`: plans of operands with other strides or types are others, for the strides of results hang on both.
  static Key key_of(const OperatorInfo& info, at::ArrayRef<at::IValue> arguments, bool strides = false);

  template <class Make>
  std::shared_ptr<const Plan> find_or_make(const Key& key, Make make) {
    if (auto plan = find(key)) return plan;
    return insert(key, std::make_shared<const Plan>(make()));
  }

 private:
  static constexpr size_t kMaxPlans = 256;
  std::shared_ptr<const Plan> find(const Key& key);
  std::shared_ptr<const Plan> insert(const Key& key, std::shared_ptr<const Plan> plan);

  struct Entry {
    Key key;
    std::shared_ptr<const Plan> plan;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;  // guarded by mutex_
  size_t last_ = 0;             // guarded by mutex_; where the last look-up ended, or the next victim
};

}  // namespace tutti
