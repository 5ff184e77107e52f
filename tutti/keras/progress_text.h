#pragma once

#include <string>

#include "tutti/keras/history.h"

namespace tutti::keras {

// The pieces of Keras's progress lines.

// "7ms/step", "2s/step", "50us/step"
std::string step_time_text(double seconds);
// " - accuracy: 0.9142 - loss: 1.2000e-05"
std::string metrics_text(const Logs& logs);

}  // namespace tutti::keras
