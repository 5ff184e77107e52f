#include "shrink.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <sstream>

#include "child.h"

namespace tutti::fuzz {
namespace {

constexpr int kSecondsOfAttempt = 60;

class Shrinker {
 public:
  Shrinker(Program program, Verdict& verdict, int seconds)
      : best_(std::move(program)),
        verdict_(verdict),
        end_(std::chrono::steady_clock::now() + std::chrono::seconds(seconds)) {}

  Program run() {
    for (bool progress = true; progress && !late();) {
      progress = drop_statements();
      progress |= drop_inputs();
      progress |= simplify_statements();
      progress |= simplify_inputs();
      progress |= simplify_mesh();
      progress |= simplify_sizes();
    }
    return best_;
  }

 private:
  bool late() const { return std::chrono::steady_clock::now() > end_; }

  // Whether the changed program still has the defect: then it is the best.
  bool accept(Program changed) {
    if (late()) return false;
    const Verdict verdict = check_in_child(changed);
    if (verdict.kind != verdict_.kind) return false;
    verdict_ = verdict;
    best_ = std::move(changed);
    return true;
  }
  bool attempt(const std::function<void(Program&)>& change) {
    Program changed = best_;
    change(changed);
    return accept(std::move(changed));
  }

  bool drop_statements() {
    bool any = false;
    for (size_t i = best_.statements.size(); i-- > 0 && !late();) {
      if (i >= best_.statements.size()) continue;
      any |= attempt([&](Program& p) { p.statements.erase(p.statements.begin() + static_cast<int64_t>(i)); }) ||
             replace_by_input(i);
    }
    return any;
  }

  // The first result of a statement becomes an input of its sizes.
  bool replace_by_input(size_t i) {
    const Statement& statement = best_.statements[i];
    if (statement.kind != Statement::Kind::call) return false;
    Program before = best_;
    before.statements.resize(i + 1);
    std::optional<Input> input;
    const ChildEnd end = in_child(
        [&](const auto& give) {
          Outcome outcome;
          try {
            outcome = run_plain(before);
          } catch (const Invalid&) {
            return;
          }
          for (const Seen& seen : outcome.seen)
            if (seen.slot == statement.result && seen.value.defined() && !seen.is_gradient) {
              give(std::to_string(static_cast<int>(seen.dtype)) + (seen.requires_grad ? " 1" : " 0"));
              for (const int64_t size : seen.sizes) give(" " + std::to_string(size));
            }
        },
        kSecondsOfAttempt);
    if (end.text.empty() || !end.failure.empty()) return false;
    std::istringstream text(end.text);
    int dtype = 0, requires_grad = 0;
    text >> dtype >> requires_grad;
    input = Input{.slot = statement.result, .dtype = static_cast<at::ScalarType>(dtype)};
    for (int64_t size; text >> size;) input->sizes.push_back(size);
    input->requires_grad = requires_grad != 0 && (at::isFloatingType(input->dtype) || at::isComplexType(input->dtype));
    input->axes.assign(input->sizes.size(), -1);
    for (size_t d = 0; d < best_.mesh.size() && d < input->axes.size() && best_.place != Place::replicas; ++d)
      input->axes[d] = static_cast<int>(d);
    return attempt([&](Program& p) {
      p.statements.erase(p.statements.begin() + static_cast<int64_t>(i));
      p.inputs.push_back(*input);
    });
  }

  bool drop_inputs() {
    bool any = false;
    for (size_t i = best_.inputs.size(); i-- > 0;)
      any |= attempt([&](Program& p) {
        const int slot = p.inputs[i].slot;
        p.inputs.erase(p.inputs.begin() + static_cast<int64_t>(i));
        for (Statement& statement : p.statements)
          for (Argument& argument : statement.arguments)
            if (argument.kind == Argument::Kind::tensors) std::erase(argument.slots, slot);
      });
    return any;
  }

  bool simplify_statements() {
    bool any = false;
    for (size_t i = 0; i < best_.statements.size(); ++i) {
      if (best_.statements[i].no_grad) any |= attempt([&](Program& p) { p.statements[i].no_grad = false; });
      for (size_t a = 0; a < best_.statements[i].arguments.size(); ++a) any |= simplify_argument(i, a);
    }
    return any;
  }

  bool simplify_argument(size_t i, size_t a) {
    bool any = false;
    const Argument argument = best_.statements[i].arguments[a];
    if (argument.kind == Argument::Kind::tensors) {
      for (size_t s = argument.slots.size(); s-- > 0 && best_.statements[i].arguments[a].slots.size() > 1;)
        any |= attempt([&](Program& p) {
          auto& slots = p.statements[i].arguments[a].slots;
          if (s < slots.size()) slots.erase(slots.begin() + static_cast<int64_t>(s));
        });
      return any;
    }
    if (!best_.statements[i].op) return false;
    const auto& schema = best_.statements[i].op->schema().arguments()[a];
    const bool optional = schema.real_type()->str().back() == '?';
    if (argument.kind == Argument::Kind::tensor && optional && argument.slots[0] >= 0)
      return attempt([&](Program& p) { p.statements[i].arguments[a].slots[0] = -1; });
    if (argument.kind != Argument::Kind::constant) return false;
    const auto set = [&](const at::IValue& value) {
      if (value.tagKind() == argument.constant.tagKind() && repr(value) == repr(argument.constant)) return false;
      return attempt([&](Program& p) { p.statements[i].arguments[a].constant = value; });
    };
    if (schema.default_value() && set(*schema.default_value())) return true;
    return optional && !argument.constant.isNone() && set(at::IValue());
  }

  static std::string repr(const at::IValue& value) {
    std::ostringstream text;
    text << value;
    return text.str();
  }

  bool simplify_inputs() {
    bool any = false;
    for (size_t i = 0; i < best_.inputs.size(); ++i) {
      const Input input = best_.inputs[i];
      const auto change = [&](const std::function<void(Input&)>& f) {
        return attempt([&](Program& p) { f(p.inputs[i]); });
      };
      if (input.requires_grad) any |= change([](Input& x) { x.requires_grad = false; });
      if (input.strides != Strides::row_major) any |= change([](Input& x) { x.strides = Strides::row_major; });
      if (input.plain) any |= change([](Input& x) { x.plain = false; });
      if (input.unreduced >= 0) any |= change([](Input& x) { x.unreduced = -1; });
      if (input.scale != 1) any |= change([](Input& x) { x.scale = 1; });
      if (input.elements == Elements::any && (input.step != 1 || input.start != 16))
        any |= change([](Input& x) { x.step = 1, x.start = 16; });
      for (size_t axis = 0; axis < input.axes.size(); ++axis)
        if (input.axes[axis] >= 0) any |= change([&](Input& x) { x.axes[axis] = -1; });
      for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
        if (input.dtype != dtype && input.dtype != at::kFloat && input.elements != Elements::indices)
          any |= change([&](Input& x) { x.dtype = dtype; });
    }
    return any;
  }

  bool simplify_mesh() {
    bool any = false;
    if (best_.place == Place::in_parts) any |= attempt([](Program& p) { p.place = Place::separate; });
    for (size_t d = best_.mesh.size(); d-- > 0;)
      if (best_.mesh.size() > 1) any |= attempt([&](Program& p) { drop_dimension(p, static_cast<int>(d)); });
    for (size_t d = 0; d < best_.mesh.size(); ++d)
      for (const int64_t size : {1, 2, 3})
        if (size < best_.mesh[d] && attempt([&](Program& p) { p.mesh[d] = size; })) {
          any = true;
          break;
        }
    return any;
  }

  static void drop_dimension(Program& p, int dimension) {
    p.mesh.erase(p.mesh.begin() + dimension);
    for (Input& input : p.inputs) {
      for (int& d : input.axes) d = d == dimension ? -1 : d > dimension ? d - 1 : d;
      if (input.unreduced == dimension) input.unreduced = -1;
      if (input.unreduced > dimension) --input.unreduced;
    }
  }

  // Equal sizes stay equal, also those among the integers of calls.
  bool simplify_sizes() {
    bool any = false;
    std::set<int64_t, std::greater<>> sizes;
    for (const Input& input : best_.inputs) sizes.insert(input.sizes.begin(), input.sizes.end());
    for (const int64_t size : sizes)
      for (const int64_t smaller : {int64_t{1}, int64_t{2}, int64_t{3}, size / 2}) {
        if (smaller >= size) continue;
        if (attempt([&](Program& p) { replace_size(p, size, smaller); })) {
          any = true;
          break;
        }
      }
    return any | drop_axes();
  }

  static void replace_size(Program& p, int64_t size, int64_t smaller) {
    for (Input& input : p.inputs) std::replace(input.sizes.begin(), input.sizes.end(), size, smaller);
    for (Statement& statement : p.statements)
      for (Argument& argument : statement.arguments)
        if (argument.constant.isIntList()) {
          auto list = argument.constant.toIntVector();
          std::replace(list.begin(), list.end(), size, smaller);
          argument.constant = c10::List<int64_t>(at::IntArrayRef(list));
        }
  }

  // Of all inputs that have it, the first or the last axis.
  bool drop_axes() {
    bool any = false;
    for (const bool first : {true, false})
      any |= attempt([&](Program& p) {
               for (Input& input : p.inputs) {
                 if (input.sizes.empty()) continue;
                 input.sizes.erase(first ? input.sizes.begin() : input.sizes.end() - 1);
                 input.axes.erase(first ? input.axes.begin() : input.axes.end() - 1);
               }
             }) &&
             !best_.inputs.empty();
    return any &&
           std::any_of(best_.inputs.begin(), best_.inputs.end(), [](const Input& x) { return !x.sizes.empty(); });
  }

  Program best_;
  Verdict& verdict_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace

Verdict check_in_child(const Program& program) {
  constexpr char kSeparator = '\x1f';
  const ChildEnd end = in_child(
      [&](const auto& give) {
        const Verdict verdict = check(program, [&] { give("M"); });
        give(kSeparator + verdict.kind + kSeparator + verdict.text);
      },
      kSecondsOfAttempt);
  const size_t kind = end.text.find(kSeparator);
  if (!end.failure.empty() && kind == std::string::npos)
    return end.text == "M" ? Verdict{"crash", end.failure} : Verdict{"invalid", end.failure};
  const size_t text = end.text.find(kSeparator, kind + 1);
  return {end.text.substr(kind + 1, text - kind - 1), end.text.substr(text + 1)};
}

Program shrink(Program program, Verdict& verdict, int seconds) {
  return Shrinker(std::move(program), verdict, seconds).run();
}

}  // namespace tutti::fuzz
