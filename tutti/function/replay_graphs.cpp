// What of a replay a GPU is given at once.
#include <algorithm>
#include <set>
#include <utility>

#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"
#include "tutti/function/replay.h"

namespace tutti {
// The GPU that alone has to do with the step, if that may be part of a graph.
std::optional<c10::Device> Replay::gpu_of(const Step& step) const {
  const bool is_kernel =
      step.form == Form::in_place || step.form == Form::functional || step.form == Form::fresh_memory;
  if (!is_kernel || step.call().draws || step.stays_alone) return {};
  std::optional<c10::Device> gpu;
  for (const auto* operands : {&step.call().arguments, &step.call().results})
    for (const Program::Operand& operand : *operands)
      for (const int number : operand.values) {
        if (number < 0) continue;
        const c10::Device lies_on = buffer(value(number).buffer).device;
        if (!is_gpu(lies_on) || gpu.value_or(lies_on) != lies_on) return {};
        gpu = lies_on;
      }
  return gpu;
}

void Replay::make_graphs(Segment& segment) {
  segment.graphs.clear();
  for (size_t begin = segment.begin, end = begin; begin < segment.end; begin = end) {
    const auto gpu = gpu_of(steps_[begin]);
    for (++end; gpu && end < segment.end && gpu_of(steps_[end]) == gpu;) ++end;
    if (!gpu) continue;
    auto uses = uses_in(begin, end);
    if (GraphedSteps::pays(end - begin, uses))
      segment.graphs.push_back({begin, end, std::make_unique<GraphedSteps>(*gpu, std::move(uses)), end});
  }
}

std::vector<GraphedSteps::Use> Replay::uses_in(size_t begin, size_t end) const {
  using Role = GraphedSteps::Role;
  std::set<int> used, made, freed;
  for (size_t i = begin; i < end; ++i) {
    const Step& step = steps_[i];
    for (const Program::Call* const call : step.calls) {
      used.insert(call->reads.begin(), call->reads.end());
      used.insert(call->writes.begin(), call->writes.end());
    }
    for (const int number : step.makes)
      if (step.form == Form::functional || places_[static_cast<size_t>(number)] == Place::own) made.insert(number);
    freed.insert(step.frees.begin(), step.frees.end());
  }
  std::vector<GraphedSteps::Use> uses;
  for (const int number : used) {
    const Place lies_in = places_[static_cast<size_t>(number)];
    if (made.contains(number) && freed.contains(number)) continue;
    const auto writes = [&](const Step& step) {
      return std::ranges::any_of(step.calls, [&](const Program::Call* call) {
        return std::ranges::find(call->writes, number) != call->writes.end();
      });
    };
    const bool is_written = std::any_of(steps_.begin() + static_cast<std::ptrdiff_t>(begin),
                                        steps_.begin() + static_cast<std::ptrdiff_t>(end), writes);
    // Of what somebody outside has, the bytes between its elements are not the function's to write.
    const bool is_fixed = lies_in == Place::kept || (lies_in == Place::bound && is_written);
    const Role role = made.contains(number) ? (lies_in == Place::given ? Role::given : Role::made)
                      : is_fixed            ? Role::fixed
                                            : Role::copied;
    uses.push_back({.role = role,
                    .storage = storages_[static_cast<size_t>(number)],
                    .bytes = buffer(number).bytes,
                    .is_written = is_written,
                    .is_freed = freed.contains(number)});
  }
  return uses;
}

namespace {

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

// Without the steps that stand in the way. The others are graphs again after some runs.
void Replay::make_other_graphs(Segment& segment) {
  bool has_failed = false;
  for (const Graphed& graph : segment.graphs) {
    const std::exception_ptr failure = graph.steps->failure();
    if (!failure) continue;
    has_failed = true;
    const bool is_one_steps = graph.begin <= graph.last_begun && graph.last_begun < graph.end;
    const size_t first = is_one_steps ? graph.last_begun : graph.begin, behind = is_one_steps ? first + 1 : graph.end;
    for (size_t i = first; i < behind; ++i) steps_[i].stays_alone = true;
    const Program::Call& call = steps_[first].call();
    warn(str(program_->name, ": call ", &call - program_->calls.data(), ", ", call.name,
             behind - first > 1 ? str(", and ", behind - first - 1, " behind it are") : ", is",
             " no part of a graph of the GPU, and launched as without graphs: ", text_of(failure)));
  }
  if (has_failed) make_graphs(segment);
}

}  // namespace tutti
