#pragma once

namespace tutti::keras {

// Between which numbers a random one lies; a single one f stands for [-f, f].
struct FactorRange {
  double lower = 0;
  double upper = 0;

  constexpr FactorRange() = default;
  constexpr FactorRange(double factor) : FactorRange(-factor, factor) {}
  // In any order.
  constexpr FactorRange(double a, double b) : lower(a < b ? a : b), upper(a < b ? b : a) {}
  bool operator==(const FactorRange&) const = default;
};

}  // namespace tutti::keras
