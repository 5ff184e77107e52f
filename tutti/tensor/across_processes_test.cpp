#include "tutti/tensor/across_processes.h"

#include <ATen/ops/full.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>

#include <string>
#include <thread>

#include "tests/support/dataset_values.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"

namespace tutti {
namespace {

using ::testing::Each;

// The ops that this thread calls meanwhile: whoever copies or allocates a tensor does it by one.
class OpsOfThread {
 public:
  OpsOfThread() : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(note))) { names_.clear(); }
  ~OpsOfThread() { at::removeCallback(handle_); }
  OpsOfThread(const OpsOfThread&) = delete;
  OpsOfThread& operator=(const OpsOfThread&) = delete;

  const std::vector<std::string>& names() const { return names_; }

 private:
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
    names_.emplace_back(function.name());
    return nullptr;
  }

  const at::CallbackHandle handle_;
  static thread_local std::vector<std::string> names_;
};
thread_local std::vector<std::string> OpsOfThread::names_;

// One of two processes, which are threads here.
void on_both(const std::function<void(Processes&)>& f) {
  const FileDescriptor memory = create_group_memory(2);
  const auto run = [&](int rank) {
    Processes processes(shared_memory_group(memory.number(), rank), nullptr);
    f(processes);
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

TEST(SumOverProcesses, CopiesNothingOnTheWayFromReplicasToResults) {
  on_both([](Processes& processes) {
    const std::shared_ptr<Processes> shared(std::shared_ptr<void>(), &processes);
    SumPacks packs;
    for (int step = 0; step < 4; ++step) {
      std::vector<BufferSum> items(2);
      for (int replica = 0; replica < 3; ++replica)
        for (size_t i = 0; i < 2; ++i)
          items[i].values.push_back(at::full({500 + static_cast<int64_t>(i)}, step + replica + processes.rank()));
      const OpsOfThread ops;
      sum_over_processes(shared, items, /*bytes_per_pack=*/0, "gradients", {}, packs);
      if (step > 0) {
        EXPECT_THAT(ops.names(), Each("aten::as_strided")) << "results are views of a pack that is there";
      }
      for (const BufferSum& item : items) {
        EXPECT_TRUE(item.result.is_alias_of(packs.packs[0]));
        EXPECT_THAT(numbers(item.result), Each(6 * step + 2 * 3 + 3));
      }
      EXPECT_GT(processes.shared_bytes(packs.packs[0].const_data_ptr()), 0U) << "where the other process sums it";
    }
  });
}

TEST(SumOverProcesses, LeavesAResultThatIsStillUsedWhereItIs) {
  on_both([](Processes& processes) {
    const std::shared_ptr<Processes> shared(std::shared_ptr<void>(), &processes);
    SumPacks packs;
    std::vector<Tensor> kept;
    for (int step = 0; step < 10; ++step) {
      std::vector<BufferSum> items(1);
      items[0].values.push_back(at::full({5000}, step));
      sum_over_processes(shared, items, 0, "gradients", {}, packs);
      if (step % (processes.rank() + 2) == 0) kept.push_back(items[0].result);
    }
    for (size_t i = 0; i < kept.size(); ++i)
      EXPECT_THAT(numbers(kept[i]), Each(2. * static_cast<double>(i) * (processes.rank() + 2)));
  });
}

}  // namespace
}  // namespace tutti
