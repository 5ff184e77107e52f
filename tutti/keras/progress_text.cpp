#include "tutti/keras/progress_text.h"

#include <cmath>
#include <iomanip>
#include <sstream>

namespace tutti::keras {

std::string step_time_text(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(0);
  if (seconds >= 1 || seconds == 0)
    out << seconds << "s/step";
  else if (seconds >= 1e-3)
    out << seconds * 1e3 << "ms/step";
  else
    out << seconds * 1e6 << "us/step";
  return out.str();
}

std::string metrics_text(const Logs& logs) {
  std::ostringstream out;
  out << std::setprecision(4);
  for (const auto& [name, value] : logs) {
    out << " - " << name << ": ";
    if (std::isnan(value))
      out << "nan";  // C++ also writes the sign
    else
      out << (std::abs(value) > 1e-3 ? std::fixed : std::scientific) << value;
  }
  return out.str();
}

}  // namespace tutti::keras
