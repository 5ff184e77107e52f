#pragma once

#include <c10/core/TensorImpl.h>

#include <vector>

#include "tutti/core/tensor_fwd.h"

namespace tutti {

class Scope;

// What a strategy does about variables once they are made. For one thread at a time.
class NewVariables {
 public:
  virtual ~NewVariables() = default;
  // Between the two, variables are made in the scope.
  virtual void open(Scope& scope) { open_.push_back(&scope); }
  void close(Scope& scope);
  // Of all that were made since the last call and live on. Every process calls it.
  virtual void settle() = 0;

 protected:
  // Whether any were made since the last take_living(), be they alive or not.
  bool any_made();
  std::vector<at::Tensor> take_living();

 private:
  void add_made_in(Scope& scope);
  void add_made_in_open();

  std::vector<Scope*> open_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> made_;
};

}  // namespace tutti
