#pragma once

namespace tutti::keras::losses {

// What keeps logarithms and quotients finite: probabilities keep this distance from 0 and 1. Keras: backend.epsilon()
inline constexpr double kEpsilon = 1e-7;

}  // namespace tutti::keras::losses
