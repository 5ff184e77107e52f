// Training programs put together at random, on one device without Tutti and on meshes: the same numbers come out.
#include <CLI/CLI.hpp>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "idioms.h"
#include "tests/fuzz/child.h"
#include "tests/support/dice.h"
#include "tests/support/watchdog.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"

namespace tutti::fuzz {
namespace {

constexpr double kTolerance = 1e-9;
constexpr int kSecondsOfProgram = 60;

std::string difference(const std::vector<Number>& seen, const std::vector<Number>& wanted) {
  if (seen.size() != wanted.size()) return str(seen.size(), " results, not ", wanted.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i].name != wanted[i].name || seen[i].values.size() != wanted[i].values.size())
      return "another result: " + seen[i].name + ", not " + wanted[i].name;
    for (size_t k = 0; k < seen[i].values.size(); ++k)
      if (!(std::abs(seen[i].values[k] - wanted[i].values[k]) <= kTolerance * (1 + std::abs(wanted[i].values[k]))))
        return str(seen[i].name, "[", k, "] is ", seen[i].values[k], ", not ", wanted[i].values[k]);
  }
  return "";
}

// Gives "mesh " where plain LibTorch does not throw, and then what is wrong.
void compare(const Choice& choice, const std::function<void(const std::string&)>& give) {
  std::vector<Number> wanted;
  try {
    wanted = train_plain(choice);
  } catch (const std::exception& error) {
    give(str("LibTorch alone throws ", error.what()).substr(0, 300));
    return;
  }
  give("mesh ");
  try {
    give(difference(train_on_mesh(choice), wanted));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    give("throws " + text.substr(0, text.find("\nException raised")).substr(0, 400));
  }
}

// What is wrong, in a process of its own or in those that were launched; empty for nothing, also where plain LibTorch
// throws.
std::string defect(const Choice& choice) {
  ChildEnd end;
  if (choice.processes) {
    const Watchdog watchdog{std::chrono::seconds(kSecondsOfProgram)};
    compare(choice, [&](const std::string& text) { end.text += text; });
  } else {
    end = in_child(
        [&](const auto& give) {
          configure_logical_cpus(4);  // asks CUDA for its GPUs, which then serves no process that is forked later
          compare(choice, give);
        },
        kSecondsOfProgram);
  }
  if (end.text.rfind("mesh ", 0) != 0) {
    std::printf("no program: %s %s %s\n", to_string(choice).c_str(), end.text.c_str(), end.failure.c_str());
    return "";
  }
  return end.text.substr(5) + end.failure;
}

Choice random_choice(Dice& dice, Choice choice) {
  choice.replicas = choice.processes ? dice.pick({0, 1, 2}) : dice.pick({0, 1, 2, 4});
  choice.merge = dice.chance(50);
  choice.recorded = dice.chance(50);
  const int percent = dice.pick({8, 15, 30});
  for (int i = 0; i < static_cast<int>(Idiom::last); ++i)
    if (dice.chance(percent)) choice.idioms |= uint64_t{1} << i;
  return sensible(choice);
}

// Without the idioms that the defect does not need, nor as many replicas.
Choice shorten(Choice choice, std::string& text) {
  const auto accept = [&](const Choice& shorter) {
    const std::string seen = defect(shorter);
    if (seen.empty()) return;
    choice = shorter;
    text = seen;
  };
  for (int i = 0; i < static_cast<int>(Idiom::last); ++i) {
    if (!choice.has(static_cast<Idiom>(i))) continue;
    Choice shorter = choice;
    shorter.idioms &= ~(uint64_t{1} << i);
    accept(sensible(shorter));
  }
  Choice shorter = choice;
  shorter.recorded = false;
  if (choice.recorded) accept(shorter);
  shorter = choice;
  shorter.merge = true;
  if (!choice.merge) accept(shorter);
  shorter = choice;
  shorter.replicas = 2;
  if (choice.replicas == 4) accept(shorter);
  return choice;
}

std::map<std::string, int> all_idioms() {
  std::map<std::string, int> idioms;
  for (int i = 0; i < static_cast<int>(Idiom::last); ++i) idioms[to_string(static_cast<Idiom>(i))] = i;
  return idioms;
}

int fuzz(uint64_t seed, int64_t seconds, int64_t programs, const Choice& place) {
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count();
  };
  std::map<std::string, int> found;
  int64_t i = 0;
  for (; programs > 0 ? i < programs : passed() < seconds; ++i) {
    Dice dice(seed * 1000003 + static_cast<uint64_t>(i));
    const Choice choice = random_choice(dice, place);
    std::string text = defect(choice);
    if (text.empty()) continue;
    if (place.processes) {  // of which each may be elsewhere now
      std::printf("--- %s\nrepeat: idiom_fuzz %s\n", text.c_str(), to_string(choice).c_str());
      return 1;
    }
    const std::string shortest = to_string(shorten(choice, text));
    if (++found[shortest] > 1) continue;
    std::printf("--- after %lld s: %s\nrepeat: ./dev fuzz idioms %s\n", static_cast<long long>(passed()), text.c_str(),
                shortest.c_str());
    std::fflush(stdout);
  }
  std::printf("%lld programs in %lld s, seed %llu: %zu findings\n", static_cast<long long>(i),
              static_cast<long long>(passed()), static_cast<unsigned long long>(seed), found.size());
  return found.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tutti::fuzz

int main(int argc, char** argv) {
  using namespace tutti::fuzz;
  CLI::App app("Random training programs on one device and on meshes");
  int64_t seconds = 60, programs = 0;
  uint64_t seed = 1;
  std::vector<int> idioms;
  Choice choice{.replicas = -1};
  app.add_option("--seconds,-s", seconds, "how long to go on");
  app.add_option("--programs,-n", programs, "how many, instead of seconds");
  app.add_option("--seed", seed, "of the programs");
  app.add_option("--idioms", idioms, "one program, of these, separated by commas")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(all_idioms()));
  app.add_option("--replicas", choice.replicas, "of that program; 0: global view");
  app.add_flag("!--separate", choice.merge, "each shard has a buffer");
  app.add_flag("--recorded", choice.recorded, "its step is recorded and replayed");
  app.add_flag("--gpus", choice.gpus,
               "on GPUs, with TUTTI_TEST_DEVICE=cpu_and_gpu simulated ones where there are none");
  app.add_flag(
      "--processes", choice.processes,
      "on the devices of all processes that `tutti launch` has started; give --programs, and see the first finding");
  CLI11_PARSE(app, argc, argv);
  tutti::set_warning_sink([](const std::string&) {});
  if (choice.processes && choice.replicas < 0 && programs == 0) {
    std::fprintf(stderr, "idiom_fuzz: --processes needs --programs, as each process has a clock of its own\n");
    return 2;
  }
  if (choice.replicas < 0) return fuzz(seed, seconds, programs, choice);
  for (const int idiom : idioms) choice.idioms |= uint64_t{1} << idiom;
  const std::string text = defect(choice);
  std::printf("%s\n", text.empty() ? "the numbers of one device" : text.c_str());
  return text.empty() ? 0 : 1;
}
