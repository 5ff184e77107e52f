#include "tutti/distribute/mirrored_strategy.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/replica_runner.h"
#include "tutti/tensor/registration.h"
#include "tutti/tensor/scope.h"
#include "tutti/tensor/torch_device.h"

namespace tutti {
namespace {

std::vector<Device> checked(const DeviceList& list) {
  if (list.devices().empty())
    throw Error(ErrorCode::invalid_argument,
                "MirroredStrategy: the list of devices is empty; name at least one, such as \"CPU:0\", or leave it out "
                "for every GPU");
  return list.devices();
}

Mesh replica_mesh(const std::vector<Device>& devices, MeshOptions options) {
  return Mesh({{"replica", static_cast<int64_t>(devices.size())}}, devices, options);
}

class MirroredScope final : public StrategyScope {
 public:
  MirroredScope(Strategy& strategy, const Mesh& mesh, std::shared_ptr<GradientGroup> group)
      : context_({.strategy = &strategy, .rendezvous = DistributionContext::current().rendezvous}),
        scope_(mesh, std::move(group)) {}

 private:
  DistributionContextGuard context_;
  Scope scope_;
};

}  // namespace

struct MirroredStrategy::State {
  State(Strategy& strategy, const std::vector<Device>& devices, MeshOptions options)
      : mesh(replica_mesh(devices, options)), runner(std::make_shared<ReplicaRunner>(strategy, mesh)) {
    // Variables may outlive the strategy: then who reads a gradient reduces it alone.
    const ParallelCall parallel = [weak = std::weak_ptr(runner)](FunctionRef<void()> function) {
      if (const auto alive = weak.lock()) return alive->help(function);
      function();
    };
    sum = std::make_shared<GradientGroup>(ReduceOp::sum, parallel);
    mean = std::make_shared<GradientGroup>(ReduceOp::mean, parallel);
  }

  Mesh mesh;
  std::shared_ptr<ReplicaRunner> runner;
  std::shared_ptr<GradientGroup> sum, mean;
};

DeviceList DeviceList::available() {
  auto gpus = list_logical_devices(DeviceType::gpu);
  return gpus.empty() ? DeviceList{Device(DeviceType::cpu, 0)} : DeviceList(std::move(gpus));
}

MirroredStrategy::MirroredStrategy(MirroredStrategyOptions options)
    : state_(std::make_unique<State>(*this, checked(options.devices), options.mesh)) {
  ensure_registered();
}

MirroredStrategy::~MirroredStrategy() = default;

int64_t MirroredStrategy::num_replicas_in_sync() const { return state_->mesh.num_devices(); }
const std::vector<Device>& MirroredStrategy::devices() const { return state_->mesh.devices(); }
const Mesh& MirroredStrategy::mesh() const { return state_->mesh; }

std::unique_ptr<StrategyScope> MirroredStrategy::scope(BuildOptions options) {
  const auto& context = DistributionContext::current();
  if (context.strategy && context.strategy != this)
    throw Error(ErrorCode::failed_precondition,
                "scope: another strategy's scope or run is active on this thread; leave it first");
  if (context.strategy && context.replica >= 0)
    throw Error(
        ErrorCode::failed_precondition,
        "scope: called in a replica's function; strategy.build(f) makes variables there, for all replicas at once");
  return std::make_unique<MirroredScope>(*this, state_->mesh,
                                         options.gradients == ReduceOp::sum ? state_->sum : state_->mean);
}

void MirroredStrategy::run_replicas(FunctionRef<void(int replica)> function, const RunOptions& options) {
  state_->runner->run(function, options);
}

data::Placement MirroredStrategy::placement() const {
  const auto& devices = state_->mesh.devices();
  std::vector<c10::Device> targets;
  for (const Device& device : devices) targets.push_back(torch_device(device));
  if (std::all_of(targets.begin(), targets.end(), [](c10::Device device) { return device.is_cpu(); })) return {};
  return [targets](const Tensor& leaf, int replica) { return leaf.to(targets[static_cast<size_t>(replica)]); };
}

}  // namespace tutti
