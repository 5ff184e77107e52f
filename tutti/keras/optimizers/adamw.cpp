#include "tutti/keras/optimizers/adamw.h"

#include "tutti/keras/optimizers/adam.h"

namespace tutti::keras::optimizers {
namespace {

AdamOptions adam_options(const AdamWOptions& options) {
  return {.learning_rate = options.learning_rate,
          .beta_1 = options.beta_1,
          .beta_2 = options.beta_2,
          .epsilon = options.epsilon,
          .amsgrad = options.amsgrad,
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

}  // namespace

AdamW::AdamW(const AdamWOptions& options) : Optimizer(Adam(adam_options(options))) {
  impl()->tell_made_from({"AdamW", options});
}

}  // namespace tutti::keras::optimizers
