#include "plan.h"

#include <algorithm>

#include "tests/support/dice.h"
#include "tutti/core/str.h"

namespace tutti::fuzz {
namespace {

constexpr const char* kMoves[] = {"train",  "zero", "backward", "step",  "clip",  "edit",    "penalty", "held",
                                  "freeze", "read", "look_up",  "views", "count", "average", "fail"};
constexpr const char* kActs[] = {"call", "burst",   "look",    "write",    "rate",  "train",
                                 "save", "restore", "end_run", "fail_run", "freeze"};
static_assert(std::size(kMoves) == static_cast<size_t>(Move::last));
static_assert(std::size(kActs) == static_cast<size_t>(Act::last));

template <class Kind>
std::vector<Step<Kind>> steps(Dice& dice, int64_t count, std::initializer_list<Kind> often) {
  std::vector<Step<Kind>> made;
  for (int64_t i = 0; i < count; ++i) {
    const auto any = static_cast<Kind>(dice.below(static_cast<int64_t>(Kind::last)));
    made.push_back({dice.chance(50) ? dice.pick(often) : any, static_cast<uint64_t>(dice.below(1'000'000))});
  }
  return made;
}

template <class Kind>
void leave_out(std::vector<Step<Kind>>& steps, const std::set<int>& without, int& count) {
  std::erase_if(steps, [&](const auto&) { return without.contains(count++); });
}

}  // namespace

bool Function::may_fail() const {
  return std::ranges::any_of(moves, [](const auto& move) { return move.kind == Move::fail; });
}

bool Function::writes() const {
  constexpr Move kHarmless[] = {Move::zero,   Move::clip, Move::edit,    Move::penalty,
                                Move::freeze, Move::read, Move::look_up, Move::views};
  return !std::ranges::all_of(moves, [&](const auto& move) { return std::ranges::count(kHarmless, move.kind) > 0; });
}

Plan make_plan(uint64_t number, const std::set<int>& without, bool rows_alone, int num_kinds) {
  Dice dice(number);
  Plan plan{.dtype = dice.chance(75) ? 0 : static_cast<int>(dice.between(1, 3)),
            .partitioner = static_cast<int>(dice.below(5)),
            .sparse = dice.chance(25),
            .rows_alone = rows_alone};
  if (rows_alone && plan.dtype >= 2)
    plan.dtype = 0;  // LibTorch adds no other sparse gradients, as those of rows alone are
  plan.sparse = plan.sparse && plan.dtype < 2;
  for (int64_t i = dice.between(1, 2); i > 0; --i)
    plan.optimizers.push_back({static_cast<int>(dice.below(num_kinds)), static_cast<uint64_t>(dice.below(1'000'000))});
  for (int64_t i = dice.between(1, 4); i > 0; --i)
    plan.functions.push_back({.in_replicas = dice.chance(80), .moves = steps(dice, dice.between(1, 5), {Move::train})});
  plan.script = steps(dice, dice.between(3, 14), {Act::call, Act::call, Act::burst, Act::write});
  int count = 0;
  for (Function& function : plan.functions) leave_out(function.moves, without, count);
  leave_out(plan.script, without, count);
  return plan;
}

int num_steps(const Plan& plan) {
  int count = static_cast<int>(plan.script.size());
  for (const Function& function : plan.functions) count += static_cast<int>(function.moves.size());
  return count;
}

std::string to_string(const Plan& plan) {
  std::string text = str("dtype ", plan.dtype, ", partitioner ", plan.partitioner, plan.sparse ? ", sparse" : "");
  for (const OptimizerPlan& optimizer : plan.optimizers)
    text += str("\n  optimizer ", optimizer.kind, " of ", optimizer.number);
  for (const Function& function : plan.functions) {
    text += function.in_replicas ? "\n  function in replicas:" : "\n  function in global view:";
    for (const auto& move : function.moves) text += str(' ', kMoves[static_cast<size_t>(move.kind)], ' ', move.number);
  }
  text += "\n  script:";
  for (const auto& act : plan.script) text += str(' ', kActs[static_cast<size_t>(act.kind)], ' ', act.number);
  return text;
}

}  // namespace tutti::fuzz
