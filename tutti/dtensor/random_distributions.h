#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "tutti/dtensor/philox.h"

namespace tutti {

// How TensorFlow makes numbers of random words. A distribution makes kGroup numbers at once; those of the group g are
// the elements from g * kGroup on. TF: tensorflow/core/lib/random/random_distributions.h.

// In [0, 1): as many low bits of the words as a mantissa has. Exact, so that it is what TensorFlow gets by subtracting 1
// from a number with this mantissa.
inline float unit_float(uint32_t word) { return static_cast<float>(word & 0x7fffff) / 0x800000; }
inline double unit_double(uint32_t high, uint32_t low) {
  return static_cast<double>(uint64_t{high & 0xfffff} << 32 | low) / static_cast<double>(uint64_t{1} << 52);
}

// Two independent standard normal numbers. Source: Box and Muller 1958, doi:10.1214/aoms/1177706645.
template <class T>
std::array<T, 2> box_muller(T radius, T angle) {
  const T r = std::sqrt(T{-2} * std::log(std::max(radius, static_cast<T>(1e-7))));
  const T phi = static_cast<T>(2 * std::numbers::pi * static_cast<double>(angle));
  return {std::sin(phi) * r, std::cos(phi) * r};
}

template <class T>
struct Uniform {
  static constexpr int kGroup = 4;
  static constexpr uint32_t kEnd = uint32_t{1} << (std::numeric_limits<T>::digits - 1);

  std::array<T, kGroup> operator()(const PhiloxStream& stream, uint64_t group) const {
    std::array<T, kGroup> numbers;
    const PhiloxWords words = stream[group];
    for (size_t i = 0; i < kGroup; ++i)
      numbers[i] = static_cast<T>(static_cast<float>(words[i] & (kEnd - 1)) / static_cast<float>(kEnd));
    return numbers;
  }
};

template <>
struct Uniform<double> {
  static constexpr int kGroup = 2;
  std::array<double, kGroup> operator()(const PhiloxStream& stream, uint64_t group) const {
    const PhiloxWords words = stream[group];
    return {unit_double(words[0], words[1]), unit_double(words[2], words[3])};
  }
};

template <class T>
struct Normal {
  static constexpr int kGroup = 4;
  std::array<T, kGroup> operator()(const PhiloxStream& stream, uint64_t group) const {
    const PhiloxWords words = stream[group];
    const auto [a, b] = box_muller(unit_float(words[0]), unit_float(words[1]));
    const auto [c, d] = box_muller(unit_float(words[2]), unit_float(words[3]));
    return {static_cast<T>(a), static_cast<T>(b), static_cast<T>(c), static_cast<T>(d)};
  }
};

template <>
struct Normal<double> {
  static constexpr int kGroup = 2;
  std::array<double, kGroup> operator()(const PhiloxStream& stream, uint64_t group) const {
    const PhiloxWords words = stream[group];
    return box_muller(unit_double(words[0], words[1]), unit_double(words[2], words[3]));
  }
};

// Normal numbers below 2 in magnitude: a group takes as many words as it needs of those reserved for it.
template <class T>
struct TruncatedNormal {
  static constexpr int kGroup = Normal<T>::kGroup;
  static constexpr uint64_t kWordGroups = kGroup * 256 / 4;

  std::array<T, kGroup> operator()(const PhiloxStream& stream, uint64_t group) const {
    std::array<T, kGroup> numbers;
    size_t found = 0;
    for (uint64_t index = group * kWordGroups;; ++index) {
      for (const T number : Normal<T>()(stream, index)) {
        if (!(std::abs(static_cast<double>(number)) < 2)) continue;
        numbers[found++] = number;
        if (found == kGroup) return numbers;
      }
    }
  }
};

// Integers as the words give them, of the dtype's full range.
template <class T>
struct FullRange {
  static constexpr int kGroup = 16 / sizeof(T);
  std::array<std::make_unsigned_t<T>, kGroup> operator()(const PhiloxStream& stream, uint64_t group) const {
    const PhiloxWords words = stream[group];
    if constexpr (sizeof(T) == 4)
      return words;
    else
      return {uint64_t{words[1]} << 32 | words[0], uint64_t{words[3]} << 32 | words[2]};
  }
};

}  // namespace tutti
