#pragma once

#include "tutti/keras/optimizers/optimizer_impl.h"

namespace tutti::keras::optimizers {

// The common fields of an optimizer's options.
template <class Options>
CommonOptions common_options(const Options& options) {
  return {.learning_rate = options.learning_rate,
          .weight_decay = options.weight_decay,
          .clipnorm = options.clipnorm,
          .global_clipnorm = options.global_clipnorm,
          .clipvalue = options.clipvalue,
          .name = options.name};
}

}  // namespace tutti::keras::optimizers
