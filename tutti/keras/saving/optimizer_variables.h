#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/tensor_fwd.h"
#include "tutti/files/hdf5_reader.h"
#include "tutti/keras/optimizers/optimizer.h"

namespace tutti::keras {

// What Keras's optimizers keep in files of weights, in their order: numbers, such as how many updates were made, then
// what belongs to the variables. Source: keras.src.optimizers, their build(), of 3.15.
struct OptimizerVariable {
  std::string path;       // "optimizer/vars/3"
  std::string name;       // our own, "adam/3/slot_0"
  Tensor value;           // as files have it
  bool is_state = false;  // the value is the optimizer's own tensor, and not a number or what follows from others
};

// Those of an optimizer that is built with `variables`, which Keras has in this order. Throws: unimplemented for a
// class that Keras lacks; failed_precondition for an optimizer that was built with others.
std::vector<OptimizerVariable> optimizer_variables(const optimizers::Optimizer& optimizer,
                                                   const std::vector<Tensor>& variables);

// Reads an optimizer's state. Keras leaves out what belongs to the variables where nothing was trained yet: then the
// optimizer is not built.
class StoredOptimizer {
 public:
  // Builds the optimizer where the file has its state. Throws: as optimizer_variables; failed_precondition where the
  // file has another number of variables.
  StoredOptimizer(const std::shared_ptr<const files::Hdf5Reader>& file, const optimizers::Optimizer& optimizer,
                  const std::vector<Tensor>& variables, const std::string& source);

  // The tensors that the optimizer has, in the file under their paths.
  const std::vector<OptimizerVariable>& state() const { return state_; }
  // Sets its numbers: of updates, the learning rate unless it is a schedule, the scale of the loss.
  void restore_numbers() const;

 private:
  optimizers::Optimizer optimizer_;
  std::vector<OptimizerVariable> state_;
  std::map<std::string, double> numbers_;  // by the names of the optimizer's state
};

}  // namespace tutti::keras
