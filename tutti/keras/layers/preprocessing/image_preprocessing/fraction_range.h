#pragma once

#include "tutti/keras/layers/preprocessing/image_preprocessing/factor_range.h"

namespace tutti::keras {

// Between which numbers, 0 to 1, a random one lies; a single one f stands for [0, f].
struct FractionRange : FactorRange {
  constexpr FractionRange() = default;
  constexpr FractionRange(double fraction) : FactorRange(0, fraction) {}
  // In any order.
  constexpr FractionRange(double a, double b) : FactorRange(a, b) {}
};

}  // namespace tutti::keras
