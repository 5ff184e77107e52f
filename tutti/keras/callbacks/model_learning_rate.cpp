#include "tutti/keras/callbacks/model_learning_rate.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/model.h"

namespace tutti::keras::callbacks {
namespace {

const optimizers::Optimizer& optimizer_of(const Model& model) {
  const auto& optimizer = model.model().compiled().optimizer;
  if (optimizer) return *optimizer;
  throw Error(ErrorCode::failed_precondition,
              str(model.name(), ": the model has no optimizer; call compile({.optimizer = …}) first"));
}

}  // namespace

double learning_rate(const Model& model) { return optimizer_of(model).learning_rate(); }

void set_learning_rate(const Model& model, double rate) {
  const optimizers::Optimizer& optimizer = optimizer_of(model);
  if (optimizer.has_schedule())
    throw Error(ErrorCode::failed_precondition,
                str(optimizer.name(),
                    ": this optimizer was created with a schedule as its learning rate, hence its learning rate is not "
                    "settable. If you need the learning rate to be settable, you should make the optimizer with a "
                    "number as learning_rate."));
  optimizer.set_learning_rate(rate);
}

}  // namespace tutti::keras::callbacks
