#include "tutti/tensor/plan_cache.h"

#include "tutti/tensor/operand.h"
#include "tutti/tensor/operator_info.h"

namespace tutti {
namespace {

// The part of an argument that tells plans apart. `is_number`: of integers their kind alone.
void append(PlanCache::Key& key, const at::IValue& value, bool strides, bool is_number = false) {
  // Far from the integers that programs pass.
  enum : int64_t { none = INT64_MIN, other, no, yes, complex, plain, number, list };
  if (const Spec* spec = spec_of(value)) {
    const Tensor& tensor = value.toTensor();
    const bool named = strides && !tensor.is_contiguous();
    const int64_t type = strides ? static_cast<int64_t>(tensor.scalar_type()) << 56 : 0;
    const int64_t conjugate = strides && tensor.is_conj() ? 4 : 0;
    const int64_t bits = (is_mask_tensor(tensor) ? 1 : 0) | (named ? 2 : 0) | conjugate | type;  // all left free
    key.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(spec)) | bits);
    if (named) key.append(tensor.strides().begin(), tensor.strides().end());
  } else if (value.isTensor()) {
    const Tensor& tensor = value.toTensor();
    key.push_back(tensor.defined() ? plain : none);
    if (strides && tensor.defined()) key.push_back(static_cast<int64_t>(tensor.scalar_type()));
  } else if (value.isInt()) {
    key.push_back(is_number ? number : value.toInt());
  } else if (value.isBool()) {
    key.push_back(value.toBool() ? yes : no);
  } else if (value.isNone()) {
    key.push_back(none);
  } else if (value.isComplexDouble()) {
    key.push_back(complex);
  } else if (value.isString()) {
    for (const char letter : value.toStringRef()) key.push_back(letter);
    key.push_back(other);
  } else if (value.isList()) {
    const auto items = value.toListRef();
    key.push_back(list + static_cast<int64_t>(items.size()));
    for (const at::IValue& item : items) append(key, item, strides);
  } else {
    key.push_back(other);
  }
}

}  // namespace

PlanCache::Key PlanCache::key_of(const OperatorInfo& info, at::ArrayRef<at::IValue> arguments, bool strides) {
  Key key;
  for (size_t i = 0; i < arguments.size(); ++i) append(key, arguments[i], strides, info.is_number[i]);
  return key;
}

std::shared_ptr<const Plan> PlanCache::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  if (last_ < entries_.size() && entries_[last_].key == key) return entries_[last_].plan;
  for (size_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].key == key) {
      last_ = i;
      return entries_[i].plan;
    }
  return nullptr;
}

std::shared_ptr<const Plan> PlanCache::insert(const Key& key, std::shared_ptr<const Plan> plan) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() < kMaxPlans) {
    entries_.push_back({key, plan});
    last_ = entries_.size() - 1;
  } else {
    last_ = (last_ + 1) % kMaxPlans;
    entries_[last_] = {key, plan};
  }
  return plan;
}

}  // namespace tutti
