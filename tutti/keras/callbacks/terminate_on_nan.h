#pragma once

#include "tutti/keras/callbacks/callback.h"

namespace tutti::keras::callbacks {

struct TerminateOnNaNOptions {
  // Throw out_of_range from fit, without on_train_end, so that what callbacks keep for a new start is kept.
  bool raise_error = false;
};

// Ends training at the batch after which the loss is NaN or infinite. It reads the loss after each batch, which waits
// for the devices. TF: tf.keras.callbacks.TerminateOnNaN
class TerminateOnNaN : public Callback {
 public:
  explicit TerminateOnNaN(const TerminateOnNaNOptions& options = {});
};

}  // namespace tutti::keras::callbacks
