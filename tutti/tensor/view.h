#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/DispatchKey.h>

#include <memory>

namespace tutti {

class GradientGroup;
struct MeshShape;
struct ScopeState;

// How this thread meets mesh tensors: in a replica's view, in global view with an active scope, or in plain global
// view.
struct ThreadView {
  int replica = -1;                                           // -1: global view
  const MeshShape* mesh = nullptr;                            // replica view: the mesh that variables must lie on
  at::Generator* generator = nullptr;                         // replica view: for ops whose caller names no generator
  ScopeState* scope = nullptr;                                // global view: factory functions create mesh tensors
  const std::shared_ptr<GradientGroup>* gradients = nullptr;  // replica view: of leaves that no scope made

  static const ThreadView& current();
};

// Gives this thread another view until the end of the block.
class ThreadViewGuard {
 public:
  explicit ThreadViewGuard(ThreadView view);
  ~ThreadViewGuard();
  ThreadViewGuard(const ThreadViewGuard&) = delete;
  ThreadViewGuard& operator=(const ThreadViewGuard&) = delete;

 private:
  ThreadView previous_;
};

// Takes the front key, for which plain global view has no use, from the calling thread: one dispatch less for each op.
// A thread that was in another view before has lost it already.
void settle_view();

// The dispatch key in front of autograd: carried by mesh tensors for replica view, and set on the thread by a scope.
inline constexpr c10::DispatchKey kFrontKey = c10::DispatchKey::DeferredInit;
// The key, set on a replica's thread, whose kernels put the replica's generator in.
inline constexpr c10::DispatchKey kGeneratorKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
// The backend key of mesh tensors, and its autograd key.
inline constexpr c10::DispatchKey kMeshKey = c10::DispatchKey::PrivateUse3;
inline constexpr c10::DispatchKey kMeshAutogradKey = c10::DispatchKey::AutogradPrivateUse3;

}  // namespace tutti
