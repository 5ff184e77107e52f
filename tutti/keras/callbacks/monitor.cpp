#include "tutti/keras/callbacks/monitor.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/keras/model.h"

namespace tutti::keras::callbacks {
namespace {

// Which way the metric strives; automatic where that is not known.
MonitorMode mode_of(const metrics::Metric& metric) {
  switch (metric.direction()) {
    case metrics::Direction::up: return MonitorMode::max;
    case metrics::Direction::down: return MonitorMode::min;
    case metrics::Direction::unknown: return MonitorMode::automatic;
  }
  return MonitorMode::automatic;
}

// The same for a name of the model's logs, without "val_".
MonitorMode mode_of(const Model& model, std::string_view name) {
  if (name == "loss") return MonitorMode::min;
  if (!model.built()) return MonitorMode::automatic;
  const auto objectives = model.model().objectives();
  if (std::ranges::find(objectives->loss_names(), name) != objectives->loss_names().end()) return MonitorMode::min;
  for (const LoggedMetric& logged : objectives->metrics())
    if (logged.name == name) return mode_of(logged.metric);
  return MonitorMode::automatic;
}

std::string logged_names(const Model& model) {
  const auto objectives = model.model().objectives();
  std::string names = "\"loss\"";
  const auto add = [&](const std::string& name) { names += str(", \"", name, '"'); };
  if (objectives->loss_names().size() > 1) std::ranges::for_each(objectives->loss_names(), add);
  for (const LoggedMetric& logged : objectives->metrics()) add(logged.name);
  return names;
}

}  // namespace

Monitor::Monitor(std::string callback, std::string name, MonitorMode mode, double min_delta)
    : callback_(std::move(callback)), name_(std::move(name)), mode_(mode), min_delta_(std::abs(min_delta)) {}

void Monitor::resolve(const Model& model) {
  if (mode_ != MonitorMode::automatic) return;
  const bool validated = name_.starts_with("val_");
  mode_ = mode_of(model, std::string_view(name_).substr(validated ? 4 : 0));
  if (mode_ == MonitorMode::automatic && model.built())
    throw Error(ErrorCode::invalid_argument,
                str(callback_, ": monitor is \"", name_,
                    "\", of which is not known whether more or less is better; the model logs ", logged_names(model),
                    ", and each with \"val_\" in front where it validates. Correct the name, or set "
                    "mode to MonitorMode::max or MonitorMode::min"));
}

std::optional<double> Monitor::value(const Logs& logs) const {
  const auto found = logs.find(name_);
  return found == logs.end() ? std::nullopt : std::optional(found->second);
}

std::string Monitor::unavailable(const Logs& logs) const {
  return str('`', name_, "` which is not available. ", available(logs));
}

std::string Monitor::available(const Logs& logs) {
  std::string names;
  for (const auto& [name, value] : logs) names += str(names.empty() ? "" : ",", name);
  return "Available metrics are: " + names;
}

bool Monitor::improves(double value, const std::optional<double>& reference) const {
  if (std::isnan(value)) return false;
  if (!reference || std::isnan(*reference)) return true;
  return mode_ == MonitorMode::max ? value - min_delta_ > *reference : value + min_delta_ < *reference;
}

}  // namespace tutti::keras::callbacks
