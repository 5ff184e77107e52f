#include "tutti/distribute/replica_context.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/default_strategy.h"
#include "tutti/distribute/strategy.h"
#include "tutti/distribute/strategy_place.h"
#include "tutti/distribute/turns.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/spec.h"

namespace tutti {

Strategy& get_strategy() {
  const auto* place = StrategyPlace::current();
  return place ? *place->strategy : default_strategy();
}
bool has_strategy() { return StrategyPlace::current() != nullptr; }
bool in_cross_replica_context() { return has_strategy() && !in_replica_function(); }

ReplicaContext get_replica_context(std::source_location location) {
  if (in_cross_replica_context())
    throw Error(ErrorCode::failed_precondition,
                str("get_replica_context: called at ", to_string(location),
                    " in cross-replica context; call it in a function that strategy.run calls"),
                location);
  return ReplicaContext(get_strategy(), std::max(ThreadView::current().function_of(), 0), location);
}

// In a run without the strategy, which may be ending: a replica may call exit().
int ReplicaContext::replica_id_in_sync_group() const {
  const StrategyPlace* place = StrategyPlace::current();
  return (place && place->rendezvous ? place->first_replica : strategy_->first_local_replica()) + replica_;
}
int64_t ReplicaContext::num_replicas_in_sync() const { return strategy_->num_replicas_in_sync(); }

void ReplicaContext::meet(Operation operation, Rendezvous::Action action) const {
  const int here = ThreadView::current().function_of();
  if (in_cross_replica_context() || &get_strategy() != strategy_ || std::max(here, 0) != replica_)
    throw Error(
        ErrorCode::failed_precondition,
        str(operation.name, ": the context is that of replica ", replica_, " of a ", strategy_->name(), ", got at ",
            to_string(location_), ", and this thread is ", here < 0 ? "outside of its run" : str("replica ", here),
            "; call get_replica_context() where it is used"),
        location_);
  auto* rendezvous = current_rendezvous();
  const MeshShape* mesh = ThreadView::current().mesh;
  const auto once = [&](std::span<void* const> payloads) {
    const StrategyPlace meeting{.strategy = strategy_, .rendezvous = rendezvous};
    const ThreadViewGuard cross_replica({.strategy = &meeting});
    std::optional<ReplicasWait> waiting;
    if (mesh) waiting.emplace(mesh->clock);
    action(payloads);
    strategy_->give_gradients();
  };
  if (!rendezvous) return once(std::span<void* const>(&operation.payload, 1));
  auto* const recorder = CallRecorder::current();
  if (recorder && recorder->in_part() && rendezvous->num_replicas() > 1)
    recorder->refuse(Error(ErrorCode::unimplemented,
                           str(operation.name,
                               ": the replicas meet in a branch of cond, or in a loop, of a recorded function, which "
                               "cannot be recorded; let them meet outside of it"),
                           location_));
  if (recorder && !StrategyPlace::current()->recorded && rendezvous->num_replicas() > 1)
    recorder->refuse(
        Error(ErrorCode::unimplemented,
              str(operation.name,
                  ": the replicas meet inside of a function that is called in run, which cannot be recorded; call "
                  "run inside of the function instead"),
              location_));
  struct Pass {
    Pass(Turns* turns, int replica) : turns(turns), replica(replica) {
      if (turns) turns->pass(replica);  // others compute while this one waits
    }
    ~Pass() {
      if (turns) turns->take(replica);
    }
    Turns* turns;
    int replica;
  } const pass(StrategyPlace::current()->turns, replica_);
  operation.location = location_;
  rendezvous->arrive(replica_, operation, once);
}

}  // namespace tutti
