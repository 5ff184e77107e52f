// What of a replay runs at once, and where its temporaries lie.
#include <algorithm>
#include <tuple>

#include "tutti/function/replay.h"

namespace tutti {

// A replica that comes again was in a meeting meanwhile.
void Replay::make_phases() {
  std::vector<int> seen;  // replicas of the last phase
  for (size_t i = 0; i < steps_.size(); ++i) {
    const int replica = steps_[i].call().replica;
    if (!seen.empty() && seen.back() == replica) {
      ++phases_.back().segments.back().end;
      continue;
    }
    const bool joins =
        !seen.empty() && replica >= 0 && seen.back() >= 0 && std::find(seen.begin(), seen.end(), replica) == seen.end();
    if (!joins) {
      phases_.emplace_back();
      seen.clear();
    }
    phases_.back().segments.push_back({i, i + 1});
    seen.push_back(replica);
  }
}

// What one segment alone uses stays its own; else the phases count in which it is used.
Lifetime Replay::widened(Lifetime life) const {
  int lane = 0;
  const auto has = [](const Segment& segment, int step) {
    return static_cast<int>(segment.begin) <= step && step < static_cast<int>(segment.end);
  };
  Lifetime wide = life;
  for (const Phase& phase : phases_) {
    const Segment whole{phase.segments.front().begin, phase.segments.back().end};
    for (const Segment& segment : phase.segments) {
      if (has(segment, life.first) && has(segment, life.last)) wide.lane = lane;
      ++lane;
    }
    if (has(whole, life.first)) wide.outer_first = static_cast<int>(whole.begin);
    if (has(whole, life.last)) wide.outer_last = static_cast<int>(whole.end) - 1;
  }
  if (wide.lane < 0) std::tie(wide.first, wide.last) = std::tie(wide.outer_first, wide.outer_last);
  return wide;
}

void Replay::plan_block() {
  const int never = static_cast<int>(steps_.size());
  std::vector<Lifetime> lifetimes;
  for (const Program::Buffer& buffer : program_->buffers) lifetimes.push_back({buffer.bytes, never, -1});
  for (int i = 0; i < never; ++i) {
    const Step& step = steps_[static_cast<size_t>(i)];
    const auto use = [&](const c10::SmallVector<int, 2>& buffers) {
      for (const int number : buffers) {
        Lifetime& life = lifetimes[static_cast<size_t>(number)];
        life.first = std::min(life.first, i);
        life.last = i;
      }
    };
    for (const Program::Call* const call : step.calls) {
      use(call->reads);
      use(call->writes);
    }
    use(step.also_reads);
  }
  std::vector<Lifetime> in_block;
  std::vector<int> numbers;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const bool temporary = places_[i] == Place::block || places_[i] == Place::own;
    if (!temporary || lifetimes[i].last < 0) continue;
    const Lifetime life = widened(lifetimes[i]);
    const auto phase = std::find_if(phases_.begin(), phases_.end(), [&](const Phase& candidate) {
      return static_cast<int>(candidate.segments.back().end) > lifetimes[i].last;
    });
    const bool is_one_segments = life.lane >= 0;
    auto& frees = is_one_segments ? steps_[static_cast<size_t>(life.last)].frees : phase->frees;
    frees.push_back(static_cast<int>(i));
    if (places_[i] != Place::block) continue;
    in_block.push_back(life);
    numbers.push_back(static_cast<int>(i));
  }
  const MemoryPlan plan = plan_memory(in_block);
  planned_bytes_ = plan.bytes;
  for (size_t i = 0; i < numbers.size(); ++i) planned_.push_back({numbers[i], plan.offsets[i]});
}

}  // namespace tutti
