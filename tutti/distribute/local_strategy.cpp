#include "tutti/distribute/local_strategy.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/in_process_all_reduce.h"
#include "tutti/distribute/reduce_gradients.h"
#include "tutti/distribute/replica_runner.h"
#include "tutti/distribute/strategy_place.h"
#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/registration.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/torch_device.h"

namespace tutti {
namespace {

Mesh replica_mesh(const char* strategy, const DeviceList& list, const MeshOptions& options) {
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
  LocalScope(Strategy& strategy, const Mesh& mesh, std::shared_ptr<GradientGroup> group, std::source_location location)
      : place_{.strategy = &strategy, .rendezvous = current_rendezvous(), .entered_at = location},
        inside_({.strategy = &place_}),
        scope_(mesh, std::move(group)) {}

 private:
  UnrecordedGuard unrecorded_;  // variables are made once
  StrategyPlace place_;
  ThreadViewGuard inside_;
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
  SharedCrossDeviceOps given;  // empty: one pass over memory in this process
  Destinations devices;
  ParallelCall parallel;

  void operator()(std::span<BufferSum> items, SumLists* lists = nullptr) const {
    if (given.get()) return tutti::reduce_gradients(*given.get(), devices, items);
    sum_buffers(items, parallel, lists);
  }
};

std::shared_ptr<GradientGroup> group_of(ReduceOp op, const GradientReduction& reduction) {
  return std::make_shared<GradientGroup>(
      op, [reduction, lists = SumLists()](std::span<BufferSum> items) mutable { reduction(items, &lists); });
}

}  // namespace

struct LocalStrategy::State {
  State(Strategy& strategy, const char* name, const DeviceList& devices, const MeshOptions& options,
        SharedCrossDeviceOps given)
      : name(name),
        mesh(replica_mesh(name, devices, options)),
        runner(std::make_shared<ReplicaRunner>(strategy, mesh)),
        reduction{.given = given, .devices = mesh.devices(), .parallel = helped_by(runner)},
        ops(given.get() ? std::move(given) : SharedCrossDeviceOps(InProcessAllReduce(reduction.parallel))),
        sum(group_of(ReduceOp::sum, reduction)),
        mean(group_of(ReduceOp::mean, reduction)) {}

  const char* name;
  Mesh mesh;
  std::shared_ptr<ReplicaRunner> runner;
  GradientReduction reduction;
  SharedCrossDeviceOps ops;
  std::shared_ptr<GradientGroup> sum, mean;
  SumLists lists;  // of reduce_gradients, which is called where replicas meet: by one thread at a time
};

LocalStrategy::LocalStrategy(const char* name, const DeviceList& devices, MeshOptions options, SharedCrossDeviceOps ops)
    : state_(std::make_unique<State>(*this, name, devices, options, std::move(ops))) {
  ensure_registered();
}

// exit() in a replica's function destroys a static strategy while the others compute or wait: they keep what they use
// until the process has ended.
LocalStrategy::~LocalStrategy() {
  [[maybe_unused]] static State* kept;
  if (state_->runner->is_running()) kept = state_.release();
}

int64_t LocalStrategy::num_replicas_in_sync() const { return state_->mesh.num_devices(); }
const std::vector<Device>& LocalStrategy::devices() const { return state_->mesh.devices(); }
std::string_view LocalStrategy::name() const { return state_->name; }
const Mesh& LocalStrategy::mesh() const { return state_->mesh; }
const CrossDeviceOps& LocalStrategy::cross_device_ops() const { return *state_->ops.get(); }
void LocalStrategy::reduce_gradients(std::span<BufferSum> items) const { state_->reduction(items, &state_->lists); }

std::unique_ptr<StrategyScope> LocalStrategy::scope(BuildOptions options, std::source_location location) {
  refuse_other_strategy("scope", location);
  if (const int replica = ThreadView::current().function_of(); replica >= 0)
    throw Error(ErrorCode::failed_precondition,
                str("scope: called at ", to_string(location), " by replica ", replica, " of ", name(),
                    "; strategy.build(f) makes variables there, for all replicas at once"),
                location);
  return std::make_unique<LocalScope>(*this, state_->mesh,
                                      options.gradients == ReduceOp::sum ? state_->sum : state_->mean, location);
}

void LocalStrategy::run_replicas(FunctionRef<void(int replica)> function, const RunOptions& options) {
  if (!current_rendezvous()) refuse_other_strategy("run");  // the runner refuses a run in a run
  state_->runner->run(function, options, state_->sum);
}

data::Placement LocalStrategy::placement() const {
  const auto& devices = state_->mesh.devices();
  std::vector<c10::Device> targets;
  for (const Device& device : devices) targets.push_back(torch_device(device));
  if (std::all_of(targets.begin(), targets.end(), [](c10::Device device) { return device.is_cpu(); })) return {};
  return [targets](const Tensor& leaf, int replica) { return leaf.to(targets[static_cast<size_t>(replica)]); };
}

}  // namespace tutti
