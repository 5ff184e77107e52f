#pragma once

#include <optional>
#include <string>

#include "tutti/keras/history.h"

namespace tutti::keras {

class Model;

namespace callbacks {

// Which values of a monitored number are better.
enum class MonitorMode {
  automatic,  // lower ones of losses; of a compiled metric, those that the metric strives for
  min,        // lower ones
  max,        // higher ones
};

// The number in the logs that a callback watches. TF: keras.callbacks.MonitorCallback
class Monitor {
 public:
  // `callback` is named in errors.
  Monitor(std::string callback, std::string name, MonitorMode mode, double min_delta = 0);

  const std::string& name() const { return name_; }

  // Finds out which values are better, which may take a model that is built; returns at once if that is known.
  // Throws: invalid_argument where mode automatic does not know.
  void resolve(const Model& model);

  std::optional<double> value(const Logs& logs) const;
  // "`val_loss` which is not available. Available metrics are: accuracy,loss"
  std::string unavailable(const Logs& logs) const;
  // "Available metrics are: accuracy,loss"
  static std::string available(const Logs& logs);

  // Whether a value is better than the reference by more than min_delta; anything is better than nothing. Resolved.
  bool improves(double value, const std::optional<double>& reference) const;

 private:
  std::string callback_;
  std::string name_;
  MonitorMode mode_;  // automatic: not resolved
  double min_delta_;
};

}  // namespace callbacks
}  // namespace tutti::keras
