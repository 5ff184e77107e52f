#pragma once

#include "tutti/keras/callbacks/callback.h"

namespace tutti::keras::callbacks {

struct SwapEMAWeightsOptions {
  bool swap_on_epoch = false;  // at the end of each epoch too, so that callbacks behind this one save the averages
};

// Puts the optimizer's moving averages in the place of the weights while the model is evaluated or predicts, and
// afterwards the weights back. Throws: failed_precondition unless the optimizer has use_ema.
// TF: tf.keras.callbacks.SwapEMAWeights
class SwapEMAWeights : public Callback {
 public:
  explicit SwapEMAWeights(const SwapEMAWeightsOptions& options = {});
};

}  // namespace tutti::keras::callbacks
