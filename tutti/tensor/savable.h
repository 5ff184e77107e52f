#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tutti/core/tensor_fwd.h"

namespace tutti {

class Savable;

// Walks over the state of an object, to save it, to compare it with what was saved, or to restore it: the object names
// each part, and all directions follow. Names are unique in their object, and do not depend on mesh, layout or the
// number of replicas.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;

  // Whether the object is being overwritten, and may make and drop parts.
  virtual bool restoring() const = 0;
  // For an object or a tensor that may be missing: whether to visit it. Saving, that is whether the object has it
  // `now`; else, whether it was saved.
  virtual bool has(const std::string& name, bool now) = 0;

  // Restored in place; sizes and dtype must agree. May be a mesh tensor.
  virtual void tensor(const std::string& name, const Tensor& value) = 0;
  virtual void number(const std::string& name, int64_t& value) = 0;
  virtual void number(const std::string& name, double& value) = 0;
  // State in a form of its owner: uint8 [bytes] from save(), given back to restore().
  virtual void opaque(const std::string& name, const std::function<Tensor()>& save,
                      const std::function<void(const Tensor&)>& restore) = 0;
  // The same of an owner that can tell beforehand whether it takes the bytes: prepare() throws if not, and changes
  // nothing; what it returns then takes them, and does not throw.
  virtual void prepared(const std::string& name, const std::function<Tensor()>& save,
                        const std::function<std::function<void()>(const Tensor&)>& prepare) {
    opaque(name, save, [&](const Tensor& state) { prepare(state)(); });
  }
  virtual void object(const std::string& name, Savable& part) = 0;
};

// An object whose state a checkpoint keeps. TF: tf.train.experimental's Trackable.
class Savable {
 public:
  virtual ~Savable() = default;
  virtual void visit_state(StateVisitor& visitor) = 0;
};

}  // namespace tutti
