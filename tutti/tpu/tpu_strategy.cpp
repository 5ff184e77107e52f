#include "tutti/tpu/tpu_strategy.h"

#include <ATen/Context.h>

#include <set>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/function/recorder.h"
#include "tutti/tpu/device_memory.h"
#include "tutti/tpu/device_program.h"
#include "tutti/tpu/planned_tpu.h"
#include "tutti/tpu/tpu_system.h"

namespace tutti {
namespace {

// What LibTorch has one kernel for, attention and recurrent layers, is recorded as the operations that it stands for.
class OperationsAlone {
 public:
  OperationsAlone() : flash_(context().userEnabledFlashSDP()), mkldnn_(context().userEnabledMkldnn()) {
    context().setSDPUseFlash(false);
    context().setUserEnabledMkldnn(false);
  }
  ~OperationsAlone() {
    context().setSDPUseFlash(flash_);
    context().setUserEnabledMkldnn(mkldnn_);
  }
  OperationsAlone(const OperationsAlone&) = delete;
  OperationsAlone& operator=(const OperationsAlone&) = delete;

 private:
  static at::Context& context() { return at::globalContext(); }

  bool flash_, mkldnn_;
};

}  // namespace

struct TPUStrategy::Devices {
  std::shared_ptr<pjrt::Client> client;
  std::shared_ptr<tpu::PlannedTpu> planned;  // instead
  std::vector<size_t> numbers;

  Devices(const cluster::ClusterResolver& resolver, const TPUStrategyOptions& options) {
    connect_to_cluster(resolver);
    planned = tpu::planned_tpu();
    if (!planned) client = tpu::tpu_client();
    const size_t num_devices = planned ? planned->devices().size() : client->devices().size();
    const auto& assignment = options.device_assignment;
    const size_t count = assignment ? static_cast<size_t>(assignment->num_replicas()) : num_devices;
    if (assignment && assignment->num_cores_per_replica() != 1)
      throw Error(ErrorCode::unimplemented, str("TPUStrategy: replicas of ", assignment->num_cores_per_replica(),
                                                " cores; a replica has one core: leave computation_shape as it is"));
    for (size_t replica = 0; replica < count; ++replica) {
      numbers.push_back(assignment ? static_cast<size_t>(assignment->tpu_ordinal(static_cast<int>(replica))) : replica);
      if (numbers.back() >= num_devices)
        throw Error(ErrorCode::not_found, str("TPUStrategy: replica ", replica, " is to have device ", numbers.back(),
                                              ", and this host has ", num_devices));
    }
    if (planned && count != num_devices)
      throw Error(ErrorCode::unimplemented,
                  str("TPUStrategy: a plan for ", count, " of the ", num_devices, " devices of ", planned->name(),
                      "; name a topology of ", count, " devices in ", tpu::kPlanVariable));
    if (std::set(numbers.begin(), numbers.end()).size() < count)
      throw Error(ErrorCode::invalid_argument, "TPUStrategy: the device assignment gives a core to two replicas");
  }
};

TPUStrategy::TPUStrategy(const cluster::ClusterResolver& resolver, const TPUStrategyOptions& options)
    : TPUStrategy(Devices(resolver, options)) {}

TPUStrategy::TPUStrategy(Devices devices)
    : LocalStrategy("TPUStrategy", configure_logical_cpus(static_cast<int>(devices.numbers.size())), {.name = "tpu"}),
      memory_(devices.planned ? nullptr : std::make_shared<tpu::DeviceMemory>(devices.client, devices.numbers)),
      compiler_(devices.planned) {
  if (memory_) compiler_ = std::make_shared<tpu::DeviceCompiler>(memory_);
}

TPUStrategy::~TPUStrategy() = default;

tpu::Traffic TPUStrategy::traffic() const { return memory_ ? memory_->traffic() : tpu::Traffic(); }

void TPUStrategy::run_replicas(FunctionRef<void(int replica)> function, const RunOptions& options) {
  auto* const recorder = dynamic_cast<Recorder*>(CallRecorder::current());
  if (!recorder)
    throw Error(ErrorCode::unimplemented,
                "TPUStrategy.run(fn, ...) does not support pure eager execution: call it in a function, as "
                "`auto step = function([&](const auto& batch) { return strategy.run(fn, batch); })`, and do not call "
                "run_functions_eagerly(true)");
  recorder->compile_by(compiler_);
  if (memory_) memory_->bring_all_home();
  const OperationsAlone while_recording;
  LocalStrategy::run_replicas(function, options);
}

}  // namespace tutti
