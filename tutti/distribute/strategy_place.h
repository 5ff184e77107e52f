#pragma once

#include <source_location>

#include "tutti/tensor/view.h"

namespace tutti {

class Rendezvous;
class Strategy;
class Turns;

// The strategy whose scope or run a thread is in. The thread's ThreadView holds it, and which replica's function the
// thread is in.
struct StrategyPlace {
  Strategy* strategy;
  Rendezvous* rendezvous = nullptr;   // where the replicas of this run meet; null: not in a run
  Turns* turns = nullptr;             // where the replicas of this run compute one at a time
  bool recorded = false;              // whether the run as a whole is a part of a recording
  int first_replica = 0;              // of this run, among those of all processes
  std::source_location entered_at{};  // of a scope: where it was opened

  // Of this thread; null: none was entered.
  static const StrategyPlace* current() { return ThreadView::current().strategy; }
};

// Where the replicas of the run meet that this thread is in; null: in none.
inline Rendezvous* current_rendezvous() {
  const auto* place = StrategyPlace::current();
  return place ? place->rendezvous : nullptr;
}

}  // namespace tutti
