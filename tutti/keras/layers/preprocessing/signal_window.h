#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tutti::keras {

enum class WindowFunction {
  none,
  hann,     // 0.5 - 0.5 cos
  hamming,  // 0.54 - 0.46 cos
};

// What the samples of a frame are multiplied by: a function, or the numbers themselves.
using SignalWindow = std::variant<WindowFunction, std::vector<double>>;

// Its values, `length` of them; none at all for WindowFunction::none. periodic: of a cosine whose period is `length`,
// else `length` - 1. Throws: invalid_argument, in the layer's name, for numbers that are not `length`.
// TF: scipy.signal.get_window
std::vector<double> window_values(const SignalWindow& window, int64_t length, bool periodic, const std::string& layer);

}  // namespace tutti::keras
