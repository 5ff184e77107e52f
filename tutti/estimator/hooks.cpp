#include "tutti/estimator/hooks.h"

#include <ATen/core/Formatting.h>

#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/estimator/log.h"

namespace tutti::estimator {
namespace {

// A number with three decimals, as TensorFlow writes seconds.
std::string three_decimals(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << value;
  return out.str();
}

// TensorFlow's %g.
std::string six_digits(double value) {
  std::ostringstream out;
  out << std::setprecision(6) << value;
  return out.str();
}

void require_loss(const char* hook, const RunValues& values) {
  if (!values.loss.defined())
    throw Error(ErrorCode::invalid_argument,
                str(hook, ": a prediction has no loss; give this hook to train or evaluate"));
}

std::string value_text(const Tensor& value) {
  if (value.numel() == 1 && !value.is_floating_point()) return std::to_string(value.item<int64_t>());
  return value.numel() == 1 ? number_text(value.item<double>()) : str(value.detach().cpu());
}

}  // namespace

StepTimer::StepTimer(std::optional<int64_t> every_steps, std::optional<double> every_secs)
    : every_steps_(every_steps), every_secs_(every_secs) {
  if (every_steps.has_value() == every_secs.has_value())
    throw Error(ErrorCode::invalid_argument, "a hook's turn comes by steps or by seconds; give exactly one of the two");
  if (every_steps ? *every_steps < 1 : !(*every_secs > 0))
    throw Error(ErrorCode::invalid_argument,
                str("a hook's turn comes each ", every_steps ? double(*every_steps) : *every_secs,
                    " steps or seconds; the number is positive"));
}

bool StepTimer::should_trigger(int64_t step) const {
  if (!last_step_) return true;
  if (step == *last_step_) return false;
  if (every_steps_) return step >= *last_step_ + *every_steps_;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - last_time_).count() >= *every_secs_;
}

std::optional<std::pair<double, int64_t>> StepTimer::trigger(int64_t step) {
  const auto now = std::chrono::steady_clock::now();
  std::optional<std::pair<double, int64_t>> since;
  if (last_step_) since.emplace(std::chrono::duration<double>(now - last_time_).count(), step - *last_step_);
  last_step_ = step;
  last_time_ = now;
  return since;
}

StopAtStepHook::StopAtStepHook(const StopAtStepOptions& options) : options_(options) {
  if (options.num_steps.has_value() == options.last_step.has_value())
    throw Error(ErrorCode::invalid_argument, "StopAtStepHook: give exactly one of num_steps and last_step");
}

void StopAtStepHook::after_create_session(Session& session) {
  if (options_.num_steps) options_.last_step = session.global_step() + *options_.num_steps;
}

void StopAtStepHook::after_run(RunContext& context, const RunValues&) {
  if (context.session().global_step() >= *options_.last_step) context.request_stop();
}

LoggingTensorHook::LoggingTensorHook(std::vector<std::string> tensors, const LoggingTensorOptions& options)
    : tensors_(std::move(tensors)), timer_(options.every_n_iter, options.every_n_secs), at_end_(options.at_end) {}

void LoggingTensorHook::after_run(RunContext&, const RunValues& values) {
  if (timer_.should_trigger(iteration_)) log(values);
  ++iteration_;
  if (at_end_) last_ = values;
}

void LoggingTensorHook::end(Session&) {
  if (at_end_ && last_) log(*last_);
}

void LoggingTensorHook::log(const RunValues& values) {
  const auto since = timer_.trigger(iteration_);
  std::string line;
  for (const std::string& name : tensors_) {
    const auto found = values.tensors.find(name);
    if (name != "step" && name != "loss" && found == values.tensors.end())
      throw Error(ErrorCode::invalid_argument, str("LoggingTensorHook: no tensor of the step is called '", name, '\''));
    if (name == "loss") require_loss("LoggingTensorHook", values);
    const std::string text = name == "step"   ? std::to_string(values.global_step)
                             : name == "loss" ? value_text(values.loss)
                                              : value_text(found->second);
    line += str(line.empty() ? "" : ", ", name, " = ", text);
  }
  log_info(since ? str(line, " (", three_decimals(since->first), " sec)") : line);
}

void NanTensorHook::after_run(RunContext& context, const RunValues& values) {
  require_loss("NanTensorHook", values);
  if (!std::isnan(values.loss.item<double>())) return;
  const std::string text = str("the loss is not a number after the step from global step ", values.global_step);
  if (fails_) throw Error(ErrorCode::failed_precondition, text + "; the model has diverged");
  log_info(text);
  context.request_stop();
}

StepCounterHook::StepCounterHook(int64_t every_n_steps, std::shared_ptr<data::EventFileWriter> events)
    : timer_(every_n_steps, {}), events_(std::move(events)) {}

void StepCounterHook::after_run(RunContext& context, const RunValues&) {
  const int64_t step = context.session().global_step();
  if (!timer_.should_trigger(step)) return;
  const auto since = timer_.trigger(step);
  if (!since) return;
  const double rate = static_cast<double>(since->second) / since->first;
  log_info(str("global_step/sec: ", six_digits(rate)));
  if (events_)
    events_->write({.step = step, .values = {{.tag = "global_step/sec", .value = static_cast<float>(rate)}}});
}

SummarySaverHook::SummarySaverHook(int64_t save_steps, std::shared_ptr<data::EventFileWriter> events)
    : timer_(save_steps, {}), events_(std::move(events)) {}

void SummarySaverHook::after_run(RunContext& context, const RunValues& values) {
  const int64_t step = context.session().global_step();
  if (!timer_.should_trigger(step)) return;
  timer_.trigger(step);
  data::Event event{.step = step, .values = {{.tag = "loss", .value = values.loss.item<float>()}}};
  for (const auto& [name, value] : values.tensors)
    if (name.starts_with("summary/")) event.values.push_back({.tag = name.substr(8), .value = value.item<float>()});
  events_->write(event);
}

void SummarySaverHook::end(Session&) { events_->flush(); }

CheckpointSaverHook::CheckpointSaverHook(CheckpointSaverOptions options)
    : options_(std::move(options)), timer_(options_.save_steps, options_.save_secs) {}

void CheckpointSaverHook::begin() {
  for (const auto& listener : options_.listeners) listener->begin();
}

void CheckpointSaverHook::after_create_session(Session& session) {
  timer_.trigger(session.global_step());
  save(session, session.global_step());
}

void CheckpointSaverHook::after_run(RunContext& context, const RunValues&) {
  Session& session = context.session();
  const int64_t step = session.global_step();
  const bool own = timer_.should_trigger(step);
  if (!(options_.save_secs ? session.as_chief(own) : own)) return;
  timer_.trigger(step);
  if (save(session, step)) context.request_stop();
}

void CheckpointSaverHook::end(Session& session) {
  const int64_t step = session.global_step();
  if (last_saved_ != step) save(session, step);
  for (const auto& listener : options_.listeners) listener->end(session, step);
}

bool CheckpointSaverHook::save(Session& session, int64_t step) {
  log_info(str("Calling checkpoint listeners before saving checkpoint ", step, "..."));
  for (const auto& listener : options_.listeners) listener->before_save(session, step);
  session.save_checkpoint();
  last_saved_ = step;
  log_info(str("Calling checkpoint listeners after saving checkpoint ", step, "..."));
  bool stop = false;
  for (const auto& listener : options_.listeners) stop |= listener->after_save(session, step);
  return stop;
}

}  // namespace tutti::estimator
