#pragma once

#include <c10/core/TensorImpl.h>

#include <memory>
#include <vector>

#include "tutti/collectives/processes.h"
#include "tutti/core/tensor_fwd.h"

namespace tutti {

// New variables of a strategy with several processes, until they have the chief's values. For one thread at a time.
class InitialValues {
 public:
  explicit InitialValues(std::shared_ptr<Processes> processes) : processes_(std::move(processes)) {}

  void add(const std::vector<at::Tensor>& made);
  // Every process calls it. A scope that is still open keeps what was made in it to itself.
  void take_from_chief();

 private:
  std::shared_ptr<Processes> processes_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> waiting_;
};

}  // namespace tutti
