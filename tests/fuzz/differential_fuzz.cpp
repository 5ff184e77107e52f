// Random programs on plain tensors and on meshes: what LibTorch alone gives, a mesh gives.
#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "child.h"
#include "generate.h"
#include "guarded_memory.h"
#include "print.h"
#include "recorded.h"
#include "shrink.h"
#include "tests/support/test_devices.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/mesh/mesh.h"

namespace tutti::fuzz {
namespace {

constexpr int kProgramsOfChild = 200;  // a child then ends, and with it what it remembers of shapes
constexpr int kSecondsAlone = 10;      // of a program on plain tensors
constexpr int kSecondsOfProgram = 60;  // of which it needs one, on a machine of its own
constexpr int kSecondsOfShrinking = 30;
constexpr int64_t kPassedOver = -1;              // in a child's lines, in the place of a program's number
constexpr int kMostAlike = 2;                    // findings of one kind and op that are shortened
constexpr rlim_t kMostMemory = rlim_t{8} << 30;  // that a child may write

struct Options {
  int64_t seconds = 60, programs = 0, first = 0;
  uint64_t seed = 1;
  std::string only, place;
  bool list = false, show = false, guard = false;
};

// What a child is at, in memory that its parent sees.
struct Progress {
  int64_t program;
  int64_t refused;  // programs that are none, or that say why they cannot run there
  bool on_mesh;
  char op[80];
};

uint64_t seed_of(const Options& options, int64_t program) {
  return options.seed * 1000003 + static_cast<uint64_t>(program);
}

// The error that a verdict is about, without what differs from call to call: the op, and numbers.
std::string error_of(const Verdict& verdict) {
  if (verdict.kind != "throws" && verdict.kind != "wrong error") return "";
  std::string text = verdict.text.substr(0, verdict.text.find('\n'));
  const auto drop_name = [&] {
    if (const size_t colon = text.find(": "); colon != std::string::npos) text.erase(0, colon + 2);
  };
  if (text.rfind("replica ", 0) == 0) drop_name();
  drop_name();
  text.resize(std::min<size_t>(text.size(), 60));
  std::erase_if(text, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) || c == '\t'; });
  return text;
}

std::vector<Place> places_of(const std::string& name) {
  // Separate buffers are where most of the work is.
  const std::vector<Place> all{Place::merged, Place::separate, Place::separate, Place::in_parts, Place::replicas};
  for (const Place place : {Place::recorded, Place::recorded_merged, Place::recorded_separate})
    if (name == to_string(place)) return {place};
  std::vector<Place> places;
  for (const Place place : all)
    if (to_string(place).find(name) == 0) places.push_back(place);
  return places;
}

// LibTorch's warnings are of deprecated calls, of which there are many.
struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// In a child that may write so much memory: what needs more fails by itself, and takes nothing from others on the
// machine.
ChildEnd in_limited_child(const std::function<void(const std::function<void(const std::string&)>& give)>& f,
                          int seconds) {
  return in_child(
      [&](const auto& give) {
#ifndef __SANITIZE_ADDRESS__  // whose shadow is of all there is
        const rlimit limit{kMostMemory, kMostMemory};
        if (test_devices_are_cpus())
          setrlimit(RLIMIT_DATA, &limit);  // a simulated device has its memory from the start
#endif
        f(give);
      },
      seconds);
}

class Fuzzer {
 public:
  explicit Fuzzer(const Options& options)
      : options_(options), families_(catalogue({.only = options.only})), places_(places_of(options.place)) {
    progress_ = static_cast<Progress*>(
        mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    set_warning_sink([](const std::string&) {});
    c10::WarningUtils::set_warning_handler(&silence_);
  }

  int run() {
    if (options_.list) return list();
    if (options_.show) return show();
    int64_t next = options_.first;
    while (!done(next)) next = run_child(next);
    std::printf("%lld programs, %lld of them refused, of %zu ops in %lld s, seed %llu: %lld findings of %zu kinds\n",
                static_cast<long long>(next - options_.first), static_cast<long long>(progress_->refused),
                families_.size(), static_cast<long long>(seconds()), static_cast<unsigned long long>(options_.seed),
                static_cast<long long>(findings_), alike_.size());
    for (const auto& [kind, count] : alike_) std::printf("  %4d  %s\n", count, kind.c_str());
    if (!passed_over_.empty()) std::printf("passed over, in so many programs:\n");
    for (const auto& [why, count] : passed_over_) std::printf("  %4d  %s\n", count, why.c_str());
    return findings_ ? 1 : 0;
  }

 private:
  int64_t seconds() const {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_).count();
  }
  bool done(int64_t next) const {
    return options_.programs > 0 ? next - options_.first >= options_.programs : seconds() >= options_.seconds;
  }

  int list() const {
    size_t overloads = 0;
    for (const OpFamily& family : families_) {
      overloads += family.overloads.size();
      std::printf("%s %zu\n", family.name.c_str(), family.overloads.size());
    }
    std::printf("%zu ops, %zu overloads\n", families_.size(), overloads);
    return 0;
  }

  int show() {
    for (int64_t i = options_.first; !done(i); ++i)
      std::printf("--- program %lld\n%s\n", static_cast<long long>(i), to_cpp(make(i), {}).c_str());
    return 0;
  }

  Program make(int64_t index) {
    progress_->program = index;
    progress_->on_mesh = false;
    return generate(seed_of(options_, index), families_, places_, [&](const std::string& op) {
      std::snprintf(progress_->op, sizeof progress_->op, "%s", op.c_str());
    });
  }

  // Runs programs in a child until it ends; shortens what it found. Returns the next program's number.
  int64_t run_child(int64_t first) {
    const ChildEnd end = in_limited_child(
        [&](const auto& give) {
          for (int64_t i = first; i < first + kProgramsOfChild && !done(i); ++i) {
            alarm(kSecondsAlone);
            const Program program = make(i);
            const Verdict verdict = check(program, [&] {
              alarm(kSecondsOfProgram);
              progress_->on_mesh = true;
            });
            progress_->on_mesh = false;
            progress_->refused += verdict.kind == "invalid";
            for (const std::string& why : verdict.passed_over) give(str(kPassedOver, "\t", why, "\n"));
            if (verdict.is_finding())
              give(str(i, "\t", verdict.kind, "\t", statement_names(program), "\t", error_of(verdict), "\t",
                       verdict.text.substr(0, verdict.text.find('\n')), "\n"));
            progress_->program = i + 1;
          }
        },
        kSecondsOfProgram);
    const int64_t stopped = progress_->program;  // shortening goes on from there
    const bool on_mesh = progress_->on_mesh;
    std::istringstream lines(end.text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      int64_t index = 0;
      std::string kind, ops, error, text;
      fields >> index;
      fields.get();
      std::getline(fields, kind, '\t');
      if (index == kPassedOver) {
        ++passed_over_[kind];
        continue;
      }
      std::getline(fields, ops, '\t');
      std::getline(fields, error, '\t');
      std::getline(fields, text);
      found(index, kind, ops, error, str("after programs from ", first, " on: ", text));
    }
    if (end.failure.empty()) return stopped;
    if (on_mesh)
      found(stopped, "crash", progress_->op, "", str("after programs from ", first, " on: ", end.failure));
    else
      pass_over(end.failure, stopped);
    return stopped + 1;
  }

  // Whether the same kind of finding is known of a single op of these, or with this error: then it is most likely the
  // same again.
  bool is_known(const std::string& kind, const std::string& ops, const std::string& error) {
    if (!error.empty() && ++known_[kind + " " + error] > kMostAlike) return true;
    std::istringstream names(ops);
    for (std::string name; std::getline(names, name, ',');) {
      name.erase(0, name.find_first_not_of(' '));
      if (known_[str(kind, ' ', name)] >= kMostAlike) return true;
    }
    return false;
  }

  void pass_over(const std::string& failure, int64_t index) {
    ++passed_over_[str("LibTorch alone ", failure, " in ", progress_->op, ", program ", index)];
  }

  // Of a recorded program, whose runs take turns with plain ones, how LibTorch alone ends the process; empty: it does
  // not.
  std::string end_alone(int64_t index) {
    return in_limited_child(
               [&](const auto&) {
                 const Program program = make(index);
                 if (is_recorded(program.place)) run_plainly(program);
               },
               kSecondsOfProgram)
        .failure;
  }

  // `where`: what it was, and where its child began.
  void found(int64_t index, const std::string& kind, const std::string& ops, const std::string& error,
             const std::string& where) {
    if (is_known(kind, ops, error)) {
      ++findings_;
      ++alike_["most likely one of the others"];
      return;
    }
    if (const auto alone = kind == "crash" ? end_alone(index) : ""; !alone.empty()) return pass_over(alone, index);
    const ChildEnd end = in_limited_child(
        [&](const auto& give) {
          const Program program = make(index);
          progress_->on_mesh = true;
          Verdict verdict = check_in_child(program);
          if (!verdict.is_finding()) {
            give(str(kind, " not alone\n// only ", where, "\n", to_cpp(program, {kind, error})));
            return;
          }
          const Program shortest = shrink(program, verdict, kSecondsOfShrinking);
          give(str(verdict.kind, " ", to_string(shortest.place), ": ", statement_names(shortest), "\n",
                   to_cpp(shortest, verdict)));
        },
        kSecondsOfShrinking + 60);
    if (!end.failure.empty() && !progress_->on_mesh) return pass_over(end.failure, index);
    ++findings_;
    const size_t line = end.text.find('\n');
    const std::string signature =
        line == std::string::npos ? kind + ", not shortened: " + end.failure : end.text.substr(0, line);
    const size_t shortest = signature.find(": ");
    if (shortest != std::string::npos && signature.find(',') == std::string::npos)
      ++known_[kind + " " + signature.substr(shortest + 2)];
    if (++alike_[signature] > 1) return;
    std::printf("--- seed %llu, program %lld, after %lld s: %s\n%s\n", static_cast<unsigned long long>(options_.seed),
                static_cast<long long>(index), static_cast<long long>(seconds()), signature.c_str(),
                line == std::string::npos ? "" : end.text.substr(line + 1).c_str());
    std::fflush(stdout);
  }

  const Options options_;
  Silence silence_;
  const std::vector<OpFamily> families_;
  const std::vector<Place> places_;
  Progress* progress_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t findings_ = 0;
  std::map<std::string, int> alike_, known_, passed_over_;
};

}  // namespace
}  // namespace tutti::fuzz

int main(int argc, char** argv) {
  using namespace tutti::fuzz;
  CLI::App app("Random programs of LibTorch calls on plain tensors and on meshes");
  Options options;
  app.add_option("--seconds,-s", options.seconds, "how long to go on");
  app.add_option("--seed", options.seed, "of the programs");
  app.add_option("--programs,-n", options.programs, "how many, instead of seconds");
  app.add_option("--first", options.first, "the number of the first program");
  app.add_option("--only", options.only, "only ops whose name has this");
  app.add_option("--place", options.place, "only there")
      ->check(CLI::IsMember(
          {"merged", "separate", "in parts", "replicas", "recorded", "recorded merged", "recorded separate"}));
  app.add_flag("--list", options.list, "tells the ops");
  app.add_flag("--show", options.show, "prints the programs instead of running them");
  app.add_flag("--guard", options.guard, "a page that nobody may touch behind each tensor's memory");
  CLI11_PARSE(app, argc, argv);
  if (options.guard) guard_memory();
  // Registered before the children are made, so that they need not do it themselves.
  tutti::test_devices(12);
  return Fuzzer(options).run();
}
