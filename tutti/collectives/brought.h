#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti {

// What the replicas brought to a meeting, in their order: a T each.
template <class T>
class Brought {
 public:
  // Each points to a T.
  explicit Brought(std::span<void* const> payloads) : payloads_(payloads) {}

  size_t size() const { return payloads_.size(); }
  T& operator[](size_t replica) const { return *static_cast<T*>(payloads_[replica]); }

 private:
  std::span<void* const> payloads_;
};

uint64_t next_type_key();
// A number for each type, not 0: replicas that bring payloads of different types must not meet.
template <class T>
uint64_t type_key() {
  static const uint64_t key = next_type_key();
  return key;
}

}  // namespace tutti
