#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace tutti {

struct MeshShape;

// For each mesh a thing that somebody else owns. Threads: any number.
template <class T>
class OfMeshes {
 public:
  void set(const MeshShape* shape, const std::shared_ptr<T>& thing) {
    const std::lock_guard lock(mutex_);
    things_[shape] = thing;
  }
  // Null where none was set, or its owner has let it go.
  std::shared_ptr<T> find(const MeshShape* shape) const {
    const std::lock_guard lock(mutex_);
    const auto found = things_.find(shape);
    return found == things_.end() ? nullptr : found->second.lock();
  }

 private:
  mutable std::mutex mutex_;
  std::map<const MeshShape*, std::weak_ptr<T>> things_;  // guarded by mutex_
};

}  // namespace tutti
