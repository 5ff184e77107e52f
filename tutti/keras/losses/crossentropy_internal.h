#pragma once

#include <string>

namespace tutti::keras::losses {

// Probabilities are kept this far from 0 and 1 before their logarithm is taken. Keras: backend.epsilon()
inline constexpr double kProbabilityEpsilon = 1e-7;

// Throws invalid_argument unless the smoothing lies in [0, 1].
void check_label_smoothing(const std::string& name, double label_smoothing);

}  // namespace tutti::keras::losses
