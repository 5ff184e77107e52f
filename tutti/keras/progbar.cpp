#include "tutti/keras/progbar.h"

#include <unistd.h>

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "tutti/core/str.h"
#include "tutti/keras/progress.h"
#include "tutti/keras/progress_text.h"

namespace tutti::keras {
namespace {

using Seconds = std::chrono::duration<double>;

// "3s", "1:02", "1:02:03"
std::string remaining_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  std::ostringstream out;
  out << std::setfill('0');
  if (whole > 3600)
    out << whole / 3600 << ':' << std::setw(2) << whole % 3600 / 60 << ':' << std::setw(2) << whole % 60;
  else if (whole > 60)
    out << whole / 60 << ':' << std::setw(2) << whole % 60;
  else
    out << whole << 's';
  return out.str();
}

std::string elapsed_text(double seconds) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(0) << seconds << 's';
  return out.str();
}

std::string right_aligned(int64_t number, size_t width) {
  const std::string text = std::to_string(number);
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string repeated(const char* sign, int64_t times) {
  std::string text;
  for (int64_t i = 0; i < times; ++i) text += sign;
  return text;
}

// Columns that a text takes: escape sequences take none, a character of several bytes takes one.
size_t columns(const std::string& text) {
  size_t count = 0;
  bool escaped = false;
  for (const char c : text) {
    if (c == '\x1b') escaped = true;
    if (!escaped && (static_cast<unsigned char>(c) & 0xC0) != 0x80) ++count;
    if (c == 'm') escaped = false;
  }
  return count;
}

}  // namespace

Progbar::Progbar(ProgbarOptions options, Clock clock)
    : options_(std::move(options)), clock_(std::move(clock)), colours_(!std::getenv("NO_COLOR")) {
  if (!options_.out) options_.out = &std::cout;
  if (!options_.terminal) options_.terminal = is_terminal(*options_.out);
  start_ = first_step_ = clock_();
}

bool Progbar::is_terminal(const std::ostream& out) { return &out == &std::cout && isatty(STDOUT_FILENO) != 0; }

bool Progbar::is_due() const { return *options_.terminal && clock_() - drawn_ >= options_.interval; }

Progbar::~Progbar() {
  if (current_ > 0 && !ended_) draw(clock_(), true);
}

void Progbar::add(int64_t steps, const Logs& values) { update(current_ + steps, values); }

void Progbar::update(int64_t current, const Logs& values) {
  const int64_t steps = current - current_;
  for (const auto& [name, value] : values) {
    Mean& mean = values_[name];
    if (options_.running_means || options_.stateful_metrics.contains(name))
      mean = {value, 1};
    else
      mean = {mean.sum + value * static_cast<double>(steps), mean.steps + steps};
  }
  current_ = current;
  const auto now = clock_();
  if (current == 1) first_step_ = now;
  const bool last = options_.target >= 0 && current >= options_.target;
  if (!ended_ && (last || (*options_.terminal && now - drawn_ >= options_.interval))) draw(now, last);
}

void Progbar::finish(int64_t current, const Logs& values) {
  options_.target = current;
  update(current, values);
}

Logs Progbar::means() const {
  Logs logs;
  for (const auto& [name, mean] : values_)
    logs[name] = mean.sum / static_cast<double>(std::max<int64_t>(mean.steps, 1));
  return logs;
}

// The first step, which makes plans and caches, does not count where there are others.
double Progbar::seconds_per_step(std::chrono::steady_clock::time_point now) const {
  if (current_ > 1 && first_step_ != start_)
    return Seconds(now - first_step_).count() / static_cast<double>(current_ - 1);
  return current_ > 0 ? Seconds(now - start_).count() / static_cast<double>(current_) : 0;
}

void Progbar::draw(std::chrono::steady_clock::time_point now, bool last) {
  drawn_ = now;
  ended_ = last;
  if (!*options_.terminal) {
    *options_.out << progress_line(current_, now - start_, means()) << std::endl;
    return;
  }
  std::string line = bar(now, last);
  const size_t width = columns(line);
  if (width < drawn_width_) line.append(drawn_width_ - width, ' ');
  drawn_width_ = width;
  *options_.out << '\r' << line << (last ? "\n" : "") << std::flush;
}

std::string Progbar::emphasized(const std::string& text) const {
  return colours_ ? "\x1b[1m" + text + "\x1b[0m" : text;
}

std::string Progbar::bar(std::chrono::steady_clock::time_point now, bool last) {
  const int64_t target = options_.target;
  const double per_step = seconds_per_step(now);
  std::string line;
  if (target >= 0) {
    const std::string total = std::to_string(target);
    const int64_t done = target > 0 ? std::min(current_, target) * options_.width / target : options_.width;
    line = emphasized(right_aligned(current_, total.size()) + '/' + total) + ' ';
    if (colours_)
      line += "\x1b[32m" + repeated("━", done) + "\x1b[0m\x1b[37m" + repeated("━", options_.width - done) + "\x1b[0m ";
    else
      line += repeated("━", done) + repeated("·", options_.width - done) + ' ';
  } else {
    line = right_aligned(current_, 7) + "/Unknown ";
  }
  const bool ends = last || target < 0;
  line += emphasized(ends ? elapsed_text(Seconds(now - start_).count())
                          : remaining_text(per_step * static_cast<double>(target - current_)));
  return line + ' ' + step_time_text(per_step) + metrics_text(means());
}

}  // namespace tutti::keras
