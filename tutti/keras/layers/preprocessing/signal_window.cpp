#include "tutti/keras/layers/preprocessing/signal_window.h"

#include <cmath>
#include <numbers>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::keras {

std::vector<double> window_values(const SignalWindow& window, int64_t length, bool periodic, const std::string& layer) {
  if (const auto* values = std::get_if<std::vector<double>>(&window)) {
    if (std::ssize(*values) != length)
      throw Error(ErrorCode::invalid_argument, str(layer, ": window has ", values->size(), " values; it must have ",
                                                   length, ", one for each sample of a frame"));
    return *values;
  }
  const auto function = std::get<WindowFunction>(window);
  if (function == WindowFunction::none) return {};
  if (length == 1) return {1};
  const double mean = function == WindowFunction::hann ? 0.5 : 0.54;
  const auto period = static_cast<double>(periodic ? length : length - 1);
  std::vector<double> values;
  for (int64_t i = 0; i < length; ++i)
    values.push_back(mean - (1 - mean) * std::cos(2 * std::numbers::pi * static_cast<double>(i) / period));
  return values;
}

}  // namespace tutti::keras
