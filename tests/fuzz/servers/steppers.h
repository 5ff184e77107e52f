// Optimizers of LibTorch and of Keras, with options of all kinds, behind one face.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "plan.h"
#include "tutti/checkpoint/checkpoint.h"

namespace tutti::fuzz {

class Stepper {
 public:
  virtual ~Stepper() = default;
  virtual void zero_grad() const = 0;
  virtual void step() const = 0;
  // Whether each step changes the parameters that have gradients alone, and graphs of before tell that they are old:
  // LibTorch's SGD writes behind their back.
  virtual bool tells_graphs() const = 0;
  virtual void set_rate(double rate) const = 0;
  virtual checkpoint::NamedTrackable in_checkpoint(const std::string& name) const = 0;
};

constexpr int kNumStepperKinds = 15;
bool takes_sparse(const OptimizerPlan& plan, bool as_dense);  // with the bits of a dense gradient, where that is asked
bool takes_complex(const OptimizerPlan& plan);
std::unique_ptr<Stepper> make_stepper(const OptimizerPlan& plan, const std::vector<at::Tensor>& parameters);

}  // namespace tutti::fuzz
