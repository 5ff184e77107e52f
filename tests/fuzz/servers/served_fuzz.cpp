// Programs for parameter servers put together at random: in one process, and on a chief, workers and servers, they
// give what LibTorch alone gives, bit for bit. Of several workers each has gradients of its own, and functions that
// write follow one another.
//   served_fuzz --programs 100 --seed 3
//   tutti launch --chief --workers 1 --ps 2 --grace 5 served_fuzz --programs 100 --seed 3
#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <map>
#include <optional>
#include <random>

#include "program.h"
#include "steppers.h"
#include "tests/support/watchdog.h"
#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"

namespace tutti::fuzz {
namespace {

struct Choice {
  uint64_t number = 0;
  std::set<int> without = {};
  bool rows_alone = false;
};

Plan plan_of(const Choice& choice) {
  return make_plan(choice.number, choice.without, choice.rows_alone, kNumStepperKinds);
}

std::string to_string(const Choice& choice) {
  std::string text = str("--program ", choice.number, choice.rows_alone ? " --rows-alone" : "");
  for (const int step : choice.without) text += str(step == *choice.without.begin() ? " --without " : ",", step);
  return text;
}

bool are_alike(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }

std::string difference(const std::vector<Number>& seen, const std::vector<Number>& wanted) {
  for (size_t i = 0; i < std::min(seen.size(), wanted.size()); ++i) {
    if (seen[i].name != wanted[i].name || seen[i].values.size() != wanted[i].values.size())
      return str("result ", i, " is ", seen[i].name, ", not ", wanted[i].name);
    for (size_t k = 0; k < seen[i].values.size(); ++k) {
      const double here = seen[i].values[k], there = wanted[i].values[k];
      if (!are_alike(here, there) && !(here != here && there != there))
        return str("result ", i, ", ", seen[i].name, "[", k, "], is ", here, ", not ", there, "; they differ by ",
                   here - there);
    }
  }
  return seen.size() == wanted.size() ? "" : str(seen.size(), " results, not ", wanted.size());
}

class Fuzzer {
 public:
  Fuzzer(ParameterServerStrategy& strategy, std::filesystem::path folder)
      : strategy_(strategy), folder_(std::move(folder)) {}

  // What is wrong; the same in all tasks. Empty also where LibTorch alone throws.
  std::string defect(const Choice& choice) {
    const Watchdog watchdog{std::chrono::seconds(60)};
    const Plan plan = plan_of(choice);
    std::string text;
    std::vector<Number> seen;
    std::vector<int> workers;
    const bool in_cluster = strategy_.training() != nullptr;
    try {
      seen = run_program(plan, {&strategy_, in_cluster, folder_ / "served", &workers});
    } catch (const std::exception& error) {
      text = error.what();
      text = "throws " + text.substr(0, text.find("\nException raised"));
    }
    if (strategy_.is_coordinator()) {
      try {
        const auto wanted = run_program(plan, {nullptr, in_cluster, folder_ / "plain", &workers});
        if (text.empty()) text = difference(seen, wanted);
        num_results_ += static_cast<int64_t>(wanted.size());
        for (size_t i = 1; i < workers.size(); ++i) num_changes_ += workers[i] != workers[i - 1];
      } catch (const std::exception& error) {
        text.clear();
        const std::string what = error.what();
        std::printf("no program: %s: %s\n", to_string(choice).c_str(), what.substr(0, what.find('\n')).c_str());
      }
    }
    ClusterCoordinator all(strategy_);
    return all.run([&] { return text; });
  }

  // Without what the defect does not need.
  Choice shorten(Choice choice, std::string& text) {
    for (int step = num_steps(plan_of(choice)) - 1; step >= 0; --step) {
      Choice shorter = choice;
      shorter.without.insert(step);
      const std::string seen = defect(shorter);
      if (seen.empty()) continue;
      choice = shorter;
      text = seen;
    }
    return choice;
  }

  int run(uint64_t seed, int64_t programs, bool rows_alone) {
    const auto start = std::chrono::steady_clock::now();
    std::map<std::string, int> found;
    for (int64_t i = 0; i < programs; ++i) {
      const Choice choice{.number = seed * 1'000'003 + static_cast<uint64_t>(i), .rows_alone = rows_alone};
      std::string text = defect(choice);
      if (text.empty()) continue;
      const Choice shortest = shorten(choice, text);
      if (!strategy_.is_coordinator() || ++found[text] > 1) continue;
      std::printf("--- %s\n%s\nrepeat: served_fuzz %s\n", text.c_str(), to_string(plan_of(shortest)).c_str(),
                  to_string(shortest).c_str());
      std::fflush(stdout);
    }
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    if (strategy_.is_coordinator())
      std::printf("%lld programs with %lld results, %lld changes of the worker, in %lld ms, seed %llu: %zu findings\n",
                  static_cast<long long>(programs), static_cast<long long>(num_results_),
                  static_cast<long long>(num_changes_), static_cast<long long>(passed.count()),
                  static_cast<unsigned long long>(seed), found.size());
    return found.empty() ? 0 : 1;
  }

 private:
  ParameterServerStrategy& strategy_;
  const std::filesystem::path folder_;
  int64_t num_results_ = 0, num_changes_ = 0;
};

// Of this task's own.
class Folder {
 public:
  Folder() : path(std::filesystem::temp_directory_path() / str("served_fuzz.", std::random_device()())) {
    for (const char* name : {"served", "plain"}) std::filesystem::create_directories(path / name);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  const std::filesystem::path path;
};

}  // namespace
}  // namespace tutti::fuzz

int main(int argc, char** argv) {
  using namespace tutti;
  CLI::App app("Random programs on parameter servers and by LibTorch alone");
  int64_t programs = 100;
  uint64_t seed = 1;
  std::optional<uint64_t> number;
  fuzz::Choice choice;
  std::vector<int> without;
  app.add_option("--programs,-n", programs, "how many");
  app.add_option("--seed", seed, "of the programs");
  app.add_option("--program", number, "this one alone");
  app.add_option("--without", without, "steps of that program, by number, separated by commas")->delimiter(',');
  app.add_flag("--rows-alone", choice.rows_alone, "a worker has no copies of tables");
  CLI11_PARSE(app, argc, argv);
  set_warning_sink([](const std::string&) {});
  ParameterServerStrategy strategy(
      {.variable_partitioner = fuzz::partitioner_of_plans(),
       .devices = configure_logical_cpus(1),
       .largest_copy_bytes = choice.rows_alone ? std::optional(fuzz::kLargestCopyBytes) : std::nullopt,
       .connect_timeout = std::chrono::seconds(60)});
  const fuzz::Folder folder;
  fuzz::Fuzzer fuzzer(strategy, folder.path);
  if (!number) return fuzzer.run(seed, programs, choice.rows_alone);
  choice.number = *number;
  choice.without = {without.begin(), without.end()};
  const std::string text = fuzzer.defect(choice);
  if (strategy.is_coordinator())
    std::printf("%s\n%s\n", to_string(fuzz::plan_of(choice)).c_str(),
                text.empty() ? "the numbers of LibTorch alone" : text.c_str());
  return strategy.is_coordinator() && !text.empty() ? 1 : 0;  // another task's failure would end it before it printed
}
