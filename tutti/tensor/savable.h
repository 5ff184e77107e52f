#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tutti/core/tensor_fwd.h"

namespace tutti {

class Savable;

// Walks over the state of an object, either to save or to restore it: the object names each part once, and both
// directions follow. Names are unique in their object and do not depend on mesh, layout or the number of replicas.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;

  // Restored in place; sizes and dtype must agree. May be a mesh tensor.
  virtual void tensor(const std::string& name, Tensor& value) = 0;
  virtual void number(const std::string& name, int64_t& value) = 0;
  virtual void number(const std::string& name, double& value) = 0;
  // State in a form of its owner: uint8 [bytes] from save(), given back to restore().
  virtual void opaque(const std::string& name, const std::function<Tensor()>& save,
                      const std::function<void(const Tensor&)>& restore) = 0;
  virtual void object(const std::string& name, Savable& part) = 0;
};

// An object whose state a checkpoint keeps. TF: tf.train.experimental's Trackable.
class Savable {
 public:
  virtual ~Savable() = default;
  virtual void visit_state(StateVisitor& visitor) = 0;
};

}  // namespace tutti
