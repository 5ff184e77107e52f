#pragma once

#include "tutti/core/error.h"
#include "tutti/core/str.h"
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
          .use_ema = options.use_ema,
          .ema_momentum = options.ema_momentum,
          .ema_overwrite_frequency = options.ema_overwrite_frequency,
          .loss_scale_factor = options.loss_scale_factor,
          .gradient_accumulation_steps = options.gradient_accumulation_steps,
          .name = options.name};
}

// Throws invalid_argument unless `holds`, of a field's value; `required`: "at least 0".
inline void require(bool holds, const std::string& optimizer, const char* field, double value, const char* required) {
  if (!holds)
    throw Error(ErrorCode::invalid_argument, str(optimizer, ": ", field, " is ", value, "; it must be ", required));
}

// Of what decays an average: 1 would never take anything in.
inline void require_decay(const std::string& optimizer, const char* field, double value) {
  require(value >= 0 && value < 1, optimizer, field, value, "in [0, 1)");
}

inline void require_momentum(const std::string& optimizer, double value) {
  require(value >= 0 && value <= 1, optimizer, "momentum", value, "in [0, 1]");
}

inline void require_not_negative(const std::string& optimizer, const char* field, double value) {
  require(value >= 0, optimizer, field, value, "at least 0");
}

}  // namespace tutti::keras::optimizers
