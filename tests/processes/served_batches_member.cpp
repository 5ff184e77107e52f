// What served_batches_test.py starts as chief, workers and a server: functions that end in no time, and behind them
// slow ones, of which one fails. The chief prints how many slow ones were called.
#include <iostream>
#include <thread>
#include <vector>

#include "tutti/coordinator/cluster_coordinator.h"
#include "tutti/device/logical_devices.h"

namespace {

using namespace tutti;

constexpr int kQuick = 20'000, kSlowBeforeFailure = 40, kSlowAfterFailure = 960;

void schedule_all(ClusterCoordinator& coordinator) {
  const auto quick = coordinator.function("quick", [](int64_t n) { return n; });
  const auto slow = coordinator.function("slow", [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return 1;
  });
  const auto fails = coordinator.function("fails", [] { throw Error(ErrorCode::data_loss, "a bad record"); });
  coordinator.run([&] {
    std::vector<RemoteValue<int64_t>> numbers;
    std::vector<RemoteValue<int>> called;
    for (int64_t i = 0; i < kQuick; ++i) numbers.push_back(coordinator.schedule(quick, i));
    for (int i = 0; i < kSlowBeforeFailure; ++i) called.push_back(coordinator.schedule(slow));
    coordinator.schedule(fails);
    try {
      for (int i = 0; i < kSlowAfterFailure; ++i) called.push_back(coordinator.schedule(slow));
      coordinator.join();
    } catch (const Error& error) {
      std::cout << "failed: " << error.what() << '\n';
    }
    for (int64_t i = 0; i < kQuick; ++i)
      if (numbers[static_cast<size_t>(i)].fetch() != i) throw Error(ErrorCode::internal, "another one's result");
    int num_called = 0;
    for (const auto& each : called) {
      try {
        num_called += each.fetch();
      } catch (const Error& error) {
        if (error.code() != ErrorCode::cancelled) throw;
      }
    }
    std::cout << num_called << " slow functions were called\n" << std::flush;
  });
}

}  // namespace

int main() {
  ParameterServerStrategy strategy({.devices = configure_logical_cpus(1)});
  ClusterCoordinator coordinator(strategy);
  schedule_all(coordinator);
}
