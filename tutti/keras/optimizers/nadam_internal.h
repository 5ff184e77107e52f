#pragma once

#include <cstdint>

namespace tutti::keras::optimizers {

// The product of Nadam's momentum at the steps 1 to `step`.
double product_of_momentum(double beta_1, int64_t step);

}  // namespace tutti::keras::optimizers
