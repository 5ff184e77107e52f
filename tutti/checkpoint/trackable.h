#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tutti/tensor/savable.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace tutti::train {

// An object that a Checkpoint saves and restores in place: a module with its parameters and buffers, an optimizer with
// its state and learning rates, a tensor or variable, a number, an iterator of a dataset, a Keras model or optimizer,
// or any Savable. Refers to the object, which must outlive it; of handles it keeps a copy.
class Trackable {
 public:
  Trackable(Savable& object);
  Trackable(torch::nn::Module& module);
  Trackable(torch::optim::Optimizer& optimizer);
  Trackable(const Tensor& tensor);
  Trackable(int64_t& number);
  Trackable(double& number);

  // Holders of modules: torch::nn::Linear, std::shared_ptr<Net>.
  template <class Holder>
  requires requires(Holder& holder) {
    { *holder } -> std::convertible_to<torch::nn::Module&>;
  }
  Trackable(Holder& holder) : Trackable(static_cast<torch::nn::Module&>(*holder)) {}

  // Handles of Keras.
  template <class Handle>
  requires requires(const Handle& handle) {
    { handle.savable() } -> std::convertible_to<std::shared_ptr<Savable>>;
  }
  Trackable(const Handle& handle) : Trackable(std::shared_ptr<Savable>(handle.savable())) {}

  // tutti::Optimizer.
  template <class Wrapper>
  requires requires(Wrapper& wrapper) {
    { wrapper.get() } -> std::convertible_to<torch::optim::Optimizer&>;
  }
  Trackable(Wrapper& wrapper) : Trackable(static_cast<torch::optim::Optimizer&>(wrapper.get())) {}

  void visit(const std::string& name, StateVisitor& visitor) const { visit_(name, visitor); }

 private:
  Trackable(std::shared_ptr<Savable> object);

  std::function<void(const std::string& name, StateVisitor& visitor)> visit_;
};

}  // namespace tutti::train
