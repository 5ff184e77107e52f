#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "tutti/keras/history.h"

namespace tutti::keras {

struct ProgbarOptions {
  int64_t target = -1;                           // steps in all; negative: unknown, as a dataset's cardinality may be
  int width = 20;                                // of the bar, in characters
  std::set<std::string> stateful_metrics;        // shown as they came last; the others as means over the steps
  bool running_means = false;                    // all values are means over the loop so far: shown as they came last
  std::chrono::duration<double> interval{0.05};  // the bar is drawn again after this time at the earliest
  std::ostream* out = nullptr;                   // null: std::cout
  std::optional<bool> terminal = {};  // whether `out` can go back in a line; by itself: std::cout on a terminal
};

// Shows how far a loop has come and the running means of its metrics. On a terminal one line that is drawn again:
//   196/391 ━━━━━━━━━━━━━━━━━━━━ 2s 11ms/step - accuracy: 0.6916 - loss: 0.6121
// elsewhere a plain line at the end:
//   391/391 - 4s - 11ms/step - accuracy: 0.7142 - loss: 0.5801
// Without colours where the environment has NO_COLOR. Not for several threads. Keras: keras.utils.Progbar.
class Progbar {
 public:
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  explicit Progbar(ProgbarOptions options = {}, Clock clock = std::chrono::steady_clock::now);
  // Ends the line of a loop that stopped before its target, or had none.
  ~Progbar();
  Progbar(const Progbar&) = delete;
  Progbar& operator=(const Progbar&) = delete;

  // `steps` more are done; `values` are their means.
  void add(int64_t steps, const Logs& values = {});
  // `current` steps are done in all.
  void update(int64_t current, const Logs& values = {});
  // The loop has ended after `current` steps, whatever its target was.
  void finish(int64_t current, const Logs& values = {});

  // Whether an update would draw.
  bool is_due() const;

  // Whether a stream can go back in a line: std::cout on a terminal.
  static bool is_terminal(const std::ostream& out);

 private:
  struct Mean {
    double sum = 0;
    int64_t steps = 0;
  };
  Logs means() const;
  double seconds_per_step(std::chrono::steady_clock::time_point now) const;
  void draw(std::chrono::steady_clock::time_point now, bool last);
  std::string bar(std::chrono::steady_clock::time_point now, bool last);
  std::string emphasized(const std::string& text) const;

  ProgbarOptions options_;
  Clock clock_;
  bool colours_;
  std::chrono::steady_clock::time_point start_, first_step_, drawn_{};
  int64_t current_ = 0;
  std::map<std::string, Mean> values_;
  size_t drawn_width_ = 0;  // characters of the line that is on the terminal
  bool ended_ = false;
};

}  // namespace tutti::keras
