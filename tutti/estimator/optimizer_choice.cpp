#include "tutti/estimator/optimizer_choice.h"

#include <array>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::estimator {

OptimizerChoice::OptimizerChoice(std::string name) {
  constexpr std::array kNames{"Adagrad", "Adam", "Ftrl", "RMSProp", "SGD"};
  bool is_known = false;
  for (const char* known : kNames) is_known |= name == known;
  if (!is_known)
    throw Error(ErrorCode::invalid_argument,
                str("there is no optimizer '", name, "' for estimators; there are ", str_list(kNames)));
  make_ = [name](std::optional<double> learning_rate) {
    const keras::optimizers::Optimizer optimizer(name.c_str());
    if (learning_rate) optimizer.set_learning_rate(*learning_rate);
    return optimizer;
  };
}

}  // namespace tutti::estimator
