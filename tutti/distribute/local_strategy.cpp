#include "tutti/distribute/local_strategy.h"

#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"
#include "tutti/distribute/default_cross_device_ops.h"
#include "tutti/distribute/in_process_all_reduce.h"
#include "tutti/distribute/initial_values.h"
#include "tutti/distribute/process_all_reduce.h"
#include "tutti/distribute/reduce_gradients.h"
#include "tutti/distribute/replica_runner.h"
#include "tutti/distribute/strategy_place.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/registration.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/torch_device.h"
#include "tutti/tensor/upload.h"

namespace tutti {
namespace {

// With `processes` a mesh of its own, which no strategy of this process alone has.
Mesh replica_mesh(const char* strategy, const DeviceList& list, MeshOptions options,
                  const std::shared_ptr<Processes>& processes) {
  if (processes && options.name.empty()) options.name = "processes";
  const auto& devices = list.devices();
  if (devices.empty())
    throw Error(ErrorCode::invalid_argument,
                str(strategy,
                    ": the list of devices is empty; name at least one, such as \"CPU:0\", or leave it out "
                    "for every GPU"));
  return Mesh({{"replica", static_cast<int64_t>(devices.size())}}, devices, options);
}

class LocalScope final : public StrategyScope {
 public:
  // `made`: is told of variables; may be null.
  LocalScope(Strategy& strategy, const Mesh& mesh, std::shared_ptr<GradientGroup> group, NewVariables* made,
             std::source_location location)
      : place_{.strategy = &strategy, .rendezvous = current_rendezvous(), .entered_at = location},
        inside_({.strategy = &place_}),
        made_(made),
        scope_(mesh, std::move(group)) {
    if (made_) made_->open(scope_);
  }
  ~LocalScope() override {
    if (made_) made_->close(scope_);
  }

  void finish() override {
    if (made_) made_->settle();
  }

 private:
  UnrecordedGuard unrecorded_;  // variables are made once
  StrategyPlace place_;
  ThreadViewGuard inside_;
  NewVariables* made_;
  Scope scope_;
};

// Variables may outlive the strategy: then who reads a gradient reduces it alone.
ParallelCall helped_by(const std::weak_ptr<ReplicaRunner>& runner) {
  return [runner](FunctionRef<void()> function) {
    if (const auto alive = runner.lock()) return alive->help(function);
    function();
  };
}

// How gradients become one. The variables keep it.
struct GradientReduction {
  SharedCrossDeviceOps given;  // or this strategy's default; empty: one pass over memory in this process
  Destinations devices;
  ParallelCall parallel;
  JoinedProcesses joined;

  void operator()(std::span<BufferSum> items, SumPacks& memory) const {
    if (joined.processes)
      return sum_over_processes(joined.processes, items, joined.bytes_per_pack, "gradients", parallel, memory);
    if (given.get()) return tutti::reduce_gradients(*given.get(), devices, items);
    sum_buffers(items, parallel, &memory.lists);
  }
};

std::shared_ptr<GradientGroup> group_of(ReduceOp op, const GradientReduction& reduction) {
  return std::make_shared<GradientGroup>(
      op, [reduction, memory = SumPacks()](std::span<BufferSum> items) mutable { reduction(items, memory); },
      reduction.joined.processes);
}

}  // namespace

struct LocalStrategy::State {
  State(Strategy& strategy, const char* name, const DeviceList& devices, const MeshOptions& options,
        SharedCrossDeviceOps given, JoinedProcesses joined)
      : name(name),
        processes(joined.processes),
        mesh(replica_mesh(name, devices, options, processes)),
        runner(std::make_shared<ReplicaRunner>(strategy, mesh, processes)),
        reduction{.given = processes ? SharedCrossDeviceOps() : cross_device_ops_of(name, mesh, std::move(given)),
                  .devices = mesh.devices(),
                  .parallel = helped_by(runner),
                  .joined = {.processes = joined.processes, .bytes_per_pack = joined.bytes_per_pack}},
        ops(reduction.given.get() ? reduction.given : own_ops()),
        sum(group_of(ReduceOp::sum, reduction)),
        mean(group_of(ReduceOp::mean, reduction)) {
    made = std::move(joined.new_variables);
    if (!processes) return;
    set_processes(mesh, processes);
    made = std::make_shared<InitialValues>(processes);
  }

  SharedCrossDeviceOps own_ops() const {
    if (processes) return ProcessAllReduce(processes, reduction.joined.bytes_per_pack, reduction.parallel);
    return InProcessAllReduce(reduction.parallel);
  }

  const char* name;
  std::shared_ptr<Processes> processes;
  std::shared_ptr<NewVariables> made;  // null: nobody needs to know of them
  Mesh mesh;
  std::shared_ptr<ReplicaRunner> runner;
  GradientReduction reduction;
  SharedCrossDeviceOps ops;
  std::shared_ptr<GradientGroup> sum, mean;
  SumPacks memory;  // of reduce_gradients, which is called where replicas meet: by one thread at a time
};

LocalStrategy::LocalStrategy(const char* name, const DeviceList& devices, const MeshOptions& options,
                             SharedCrossDeviceOps ops)
    : state_(std::make_unique<State>(*this, name, devices, options, std::move(ops), JoinedProcesses{})) {
  ensure_registered();
}

LocalStrategy::LocalStrategy(const char* name, const DeviceList& devices, const MeshOptions& options,
                             JoinedProcesses joined)
    : state_(std::make_unique<State>(*this, name, devices, options, SharedCrossDeviceOps(), std::move(joined))) {
  ensure_registered();
}

// exit() in a replica's function destroys a static strategy while the others compute or wait: they keep what they use
// until the process has ended.
LocalStrategy::~LocalStrategy() {
  [[maybe_unused]] static State* kept;
  if (state_->runner->is_running()) kept = state_.release();
}

int64_t LocalStrategy::num_replicas_in_sync() const {
  return state_->mesh.num_devices() * (state_->processes ? state_->processes->size() : 1);
}
const std::shared_ptr<Processes>& LocalStrategy::processes() const { return state_->processes; }
const std::vector<Device>& LocalStrategy::devices() const { return state_->mesh.devices(); }
std::string_view LocalStrategy::name() const { return state_->name; }
const Mesh& LocalStrategy::mesh() const { return state_->mesh; }
const CrossDeviceOps& LocalStrategy::cross_device_ops() const { return *state_->ops.get(); }
void LocalStrategy::reduce_gradients(std::span<BufferSum> items) const { state_->reduction(items, state_->memory); }

void LocalStrategy::give_gradients() {
  state_->sum->give_only_replica();
  state_->mean->give_only_replica();
}

void LocalStrategy::drop_gradients() {
  state_->sum->drop();
  state_->mean->drop();
}

std::unique_ptr<StrategyScope> LocalStrategy::scope(BuildOptions options, std::source_location location) {
  refuse_other_strategy("scope", location);
  if (const int replica = ThreadView::current().function_of(); replica >= 0)
    throw Error(ErrorCode::failed_precondition,
                str("scope: called at ", to_string(location), " by replica ", replica, " of ", name(),
                    "; strategy.build(f) makes variables there, for all replicas at once"),
                location);
  return std::make_unique<LocalScope>(*this, state_->mesh,
                                      options.gradients == ReduceOp::sum ? state_->sum : state_->mean,
                                      state_->made.get(), location);
}

void LocalStrategy::run_replicas(FunctionRef<void(int replica)> function, const RunOptions& options) {
  if (!current_rendezvous()) refuse_other_strategy("run");  // the runner refuses a run in a run
  if (state_->made && !current_rendezvous()) state_->made->settle();
  state_->sum->note_run();
  state_->mean->note_run();
  give_gradients();
  state_->runner->run(function, options, state_->sum);
}

data::Placer LocalStrategy::placer() const {
  const auto& devices = state_->mesh.devices();
  std::vector<c10::Device> targets;
  for (const Device& device : devices) targets.push_back(torch_device(device));
  if (num_gpus() == 0) return {};  // every tensor is where it shall be
  const std::vector<Upload> uploads(targets.begin(), targets.end());
  return [uploads](const Tensor& leaf, int replica) { return uploads[static_cast<size_t>(replica)](leaf); };
}

}  // namespace tutti
