#include "tutti/distribute/default_strategy.h"

#include "tutti/core/error.h"

namespace tutti {
namespace {

class DefaultStrategy final : public Strategy {
 public:
  int64_t num_replicas_in_sync() const override { return 1; }
  const std::vector<Device>& devices() const override { return devices_; }
  std::string_view name() const override { return "default strategy"; }
  std::unique_ptr<StrategyScope> scope(BuildOptions, std::source_location location) override {
    refuse_other_strategy("scope", location);
    return std::make_unique<StrategyScope>();
  }

 private:
  void run_replicas(FunctionRef<void(int)> function, const RunOptions&) override {
    refuse_other_strategy("run");
    function(0);
  }
  data::Placer placer() const override { return {}; }

  std::vector<Device> devices_{Device(DeviceType::cpu, 0)};
};

}  // namespace

Strategy& default_strategy() {
  static DefaultStrategy strategy;
  return strategy;
}

}  // namespace tutti
