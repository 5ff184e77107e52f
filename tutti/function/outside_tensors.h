#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <unordered_map>
#include <vector>

#include "tutti/function/geometry.h"

namespace tutti {

// Whether grad() is the tensor's own: a parameter's.
inline bool is_leaf_with_gradient(const Tensor& tensor) { return tensor.requires_grad() && tensor.is_leaf(); }

// Which of the tensors that a function's calls use were there before it, on memory that another tensor has too: the
// parameters of a flat vector, a recurrent network's weights on a GPU. Views that calls of its own give are none. Keeps
// no tensor alive.
class OutsideTensors {
 public:
  struct Used {
    int buffer;         // as the caller numbers them
    Geometry geometry;  // of a plain tensor
    bool requires_grad, had_gradient;
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
  };

  // A call's result, unless it is an argument that the call was given.
  void made(const Tensor& tensor);
  // A call's argument. Returns whether it is one from outside that was not used before.
  bool use(const Tensor& tensor, int buffer);
  // Gives f each one from outside that somebody has now.
  template <class F>
  void for_each(const F& f) const {
    for (const auto& [impl, used] : known_)
      if (used.buffer >= 0)
        if (auto tensor = used.tensor.lock()) f(Tensor(std::move(tensor)), used);
  }
  void clear() { known_.clear(); }

 private:
  std::unordered_map<const c10::TensorImpl*, Used> known_;  // made by a call: of no buffer
};

}  // namespace tutti
