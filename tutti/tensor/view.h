#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/DispatchKey.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace tutti {

class GradientGroup;
struct MeshShape;
struct ScopeState;
struct StrategyPlace;

// Where this thread is, and so how it meets mesh tensors: in a replica's view, in global view with an active scope, or
// in plain global view.
struct ThreadView {
  int replica = -1;                                           // -1: global view
  int suspended = -1;                                         // in global view: the replica whose function needed it
  const MeshShape* mesh = nullptr;                            // replica view: the mesh that variables must lie on
  at::Generator* generator = nullptr;                         // for ops whose caller names none; null: LibTorch's own
  ScopeState* scope = nullptr;                                // global view: factory functions create mesh tensors
  const std::shared_ptr<GradientGroup>* gradients = nullptr;  // replica view: of leaves that no scope made
  const StrategyPlace* strategy = nullptr;                    // whose scope or run this is; null: no strategy's

  static const ThreadView& current();

  // The replica in whose function the thread is, whatever the view; -1: in none's.
  int function_of() const { return std::max(replica, suspended); }
  // Global view in the same place: what the library itself needs in a scope, in a replica or where replicas meet.
  ThreadView global() const { return {.suspended = function_of(), .strategy = strategy}; }
};

// Puts this thread in another place until the end of the block. ThreadViewGuard({}): outside of all strategies.
class ThreadViewGuard {
 public:
  explicit ThreadViewGuard(ThreadView view);
  ~ThreadViewGuard();
  ThreadViewGuard(const ThreadViewGuard&) = delete;
  ThreadViewGuard& operator=(const ThreadViewGuard&) = delete;

 private:
  ThreadView previous_;
};

// Gives this thread plain global view until the end of the block; it stays in its strategy.
class GlobalViewGuard {
  ThreadViewGuard view_{ThreadView::current().global()};
};

inline bool in_replica_view() { return ThreadView::current().replica >= 0; }
inline bool in_replica_function() { return ThreadView::current().function_of() >= 0; }

// Throws: failed_precondition in a replica's view. `call` is what was called, `way_out` what to do instead.
void require_global_view(std::string_view call, std::string_view way_out = "call it outside of run");

// Takes the front key, for which plain global view has no use, from the calling thread: one dispatch less for each op.
// A thread that was in another view before has lost it already.
void settle_view();

// The dispatch key in front of autograd: carried by mesh tensors for replica view, and set on the thread by a scope.
inline constexpr c10::DispatchKey kFrontKey = c10::DispatchKey::DeferredInit;
// The key of kernels that stand in for a few of LibTorch's: set on a thread with a generator of its own, which they put
// in, and where variables lie in other processes (remote_reads.h).
inline constexpr c10::DispatchKey kGeneratorKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
// The backend key of mesh tensors, and its autograd key.
inline constexpr c10::DispatchKey kMeshKey = c10::DispatchKey::PrivateUse3;
inline constexpr c10::DispatchKey kMeshAutogradKey = c10::DispatchKey::AutogradPrivateUse3;

}  // namespace tutti
