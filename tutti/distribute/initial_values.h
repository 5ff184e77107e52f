#pragma once

#include <c10/core/TensorImpl.h>

#include <memory>
#include <vector>

#include "tutti/collectives/processes.h"
#include "tutti/tensor/scope.h"

namespace tutti {

// New variables of a strategy with several processes, until they have the chief's values. For one thread at a time.
class InitialValues {
 public:
  explicit InitialValues(std::shared_ptr<Processes> processes) : processes_(std::move(processes)) {}

  // Between the two, variables are made in the scope.
  void open(Scope& scope) { open_.push_back(&scope); }
  void close(Scope& scope);
  // Of all that were made since the last call. Every process calls it.
  void take_from_chief();

 private:
  void add_made_in(Scope& scope);

  std::shared_ptr<Processes> processes_;
  std::vector<Scope*> open_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> waiting_;
};

}  // namespace tutti
