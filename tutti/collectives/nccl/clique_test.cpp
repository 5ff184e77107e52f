#include "tutti/collectives/nccl/clique.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/fake_nccl.h"
#include "tests/support/simulated_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/core/str.h"

namespace tutti::nccl {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class NcclClique : public testing::Test {
 protected:
  std::unique_ptr<Clique> join(int size, std::chrono::milliseconds timeout = 20s) const {
    std::vector<c10::Device> devices;
    for (int i = 0; i < size; ++i) devices.push_back(simulated_device(i));
    return std::make_unique<Clique>(load(fake_.environment()), devices, timeout);
  }
  // The sum of 1, 2, … on so many devices, as each has it.
  static std::vector<float> sum_of_ranks(Clique& clique, int size) {
    std::vector<float> values;
    for (int i = 0; i < size; ++i) values.push_back(static_cast<float>(i + 1));
    Pack pack{.count = 1};
    for (float& value : values) pack.buffers.push_back(&value);
    clique.sum({&pack, 1});
    return values;
  }

  const Watchdog watchdog_{60s};
  const FakeNccl fake_;
};

// Work of a test's own on the device's current stream.
void enqueue(int device, std::function<void()> work) {
  auto* const stream = static_cast<SimulatedStream*>(
      c10::impl::VirtualGuardImpl(simulated_device(0).type()).getStream(simulated_device(device)).native_handle());
  const auto run = [](void* argument) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(argument));
    (*owned)();
  };
  stream->enqueue(stream, run, new std::function<void()>(std::move(work)));
}

// Keeps the device's stream busy while it lives.
class Busy {
 public:
  explicit Busy(int device) : device_(device) {
    enqueue(device, [over = over_] {
      while (!*over) std::this_thread::sleep_for(1ms);
    });
  }
  ~Busy() {
    *over_ = true;
    wait_for_current_stream(device_);
  }

 private:
  int device_;
  std::shared_ptr<std::atomic<bool>> over_ = std::make_shared<std::atomic<bool>>(false);
};

TEST_F(NcclClique, JoinsAddsAndLeaves) {
  for (const int size : {2, 3, 4, 8}) {
    auto clique = join(size);
    EXPECT_EQ(fake_.num_alive(), size);
    EXPECT_THAT(sum_of_ranks(*clique, size), Each(static_cast<float>(size * (size + 1)) / 2));
  }
  EXPECT_EQ(fake_.num_alive(), 0);
  EXPECT_EQ(fake_.num_aborted(), 0) << "who is done says goodbye";
}

TEST_F(NcclClique, SumsPacksOfSeveralDtypesInOneGroupOfCalls) {
  const auto clique = join(2);
  int64_t integers[2][2] = {{1, 2}, {3, 4}};
  double numbers[2] = {0.5, 0.25};
  const Pack packs[] = {{.dtype = Dtype::int64, .count = 2, .buffers = {integers[0], integers[1]}},
                        {.dtype = Dtype::float64, .count = 1, .buffers = {&numbers[0], &numbers[1]}}};
  clique->sum(packs);
  for (const auto& of_device : integers) EXPECT_THAT(of_device, ElementsAre(4, 6));
  EXPECT_THAT(numbers, Each(0.75));
  EXPECT_EQ(fake_.calls(), " ncclGroupStart ncclAllReduce ncclAllReduce ncclAllReduce ncclAllReduce ncclGroupEnd");
}

TEST_F(NcclClique, ComesBehindWhatTheCurrentStreamsWereGiven) {
  const auto clique = join(2);
  const c10::impl::VirtualGuardImpl devices(simulated_device(0).type());
  std::atomic<bool> is_over = false;
  enqueue(1, [&] {  // on the stream that is not current when it is summed: nobody waits for it
    while (!is_over) std::this_thread::sleep_for(1ms);
  });
  const c10::Stream before = devices.exchangeStream(devices.getStreamFromGlobalPool(simulated_device(1), false));
  float values[2] = {1, 1};
  for (const int device : {0, 1})
    enqueue(device, [&, device] {
      std::this_thread::sleep_for(20ms);
      values[device] = 2;
    });
  const Pack pack{.count = 1, .buffers = {&values[0], &values[1]}};
  clique->sum({&pack, 1});
  EXPECT_THAT(values, Each(4));
  devices.exchangeStream(before);
  is_over = true;
  wait_for_current_stream(1);
}

TEST_F(NcclClique, LeavesTheCurrentDeviceAsItWas) {
  const c10::impl::VirtualGuardImpl devices(simulated_device(0).type());
  devices.setDevice(simulated_device(7));
  const auto clique = join(3);
  EXPECT_THAT(sum_of_ranks(*clique, 3), Each(6));
  EXPECT_EQ(current_simulated_device(), 7);
  devices.setDevice(simulated_device(0));
}

// --- what fails ---

TEST_F(NcclClique, NamesTheDeviceThatCannotJoin) {
  for (const NcclFault fault : {NcclFault::failed_start, NcclFault::failed_join}) {
    fake_.set(fault, 1);
    EXPECT_THAT(error_of([&] { join(3); }), HasSubstr("NCCL between GPU:0, GPU:1, GPU:2: GPU:1: NCCL 2.29.7"));
    EXPECT_EQ(fake_.num_alive(), 0);
  }
  fake_.set(NcclFault::none);
  EXPECT_THAT(sum_of_ranks(*join(3), 3), Each(6));
}

TEST_F(NcclClique, WithoutAnIdNobodyJoins) {
  fake_.set(NcclFault::no_id);
  EXPECT_THAT(error_of([&] { join(2); }),
              AllOf(StartsWith("unavailable: NCCL between GPU:0, GPU:1: "), HasSubstr("ncclGetUniqueId")));
}

TEST_F(NcclClique, NamesTheDeviceThatNeverJoins) {
  fake_.set(NcclFault::endless_join, 1);
  EXPECT_EQ(error_of([&] { join(3, 100ms); }),
            "deadline_exceeded: NCCL between GPU:0, GPU:1, GPU:2: after 100 ms GPU:1 has not joined");
  EXPECT_EQ(fake_.num_aborted(), 3);
}

TEST_F(NcclClique, TheSameGpuTwiceIsRefusedByNccl) {
  const std::vector<c10::Device> twice(2, simulated_device(3));
  EXPECT_THAT(error_of([&] { Clique(load(fake_.environment()), twice, 20s); }),
              AllOf(StartsWith("failed_precondition"), HasSubstr("Duplicate GPU detected")));
}

TEST_F(NcclClique, NamesTheDeviceWhereACallFails) {
  for (const NcclFault fault : {NcclFault::failed_call, NcclFault::failed_settling, NcclFault::failed_on_device}) {
    auto clique = join(3);
    fake_.set(fault, 1);
    const std::string error = error_of([&] { sum_of_ranks(*clique, 3); });
    EXPECT_THAT(error, HasSubstr("NCCL between GPU:0, GPU:1, GPU:2: "));
    EXPECT_THAT(error, HasSubstr(fault == NcclFault::failed_call ? "ncclGroupEnd" : ": GPU:1: NCCL 2.29.7"));
    EXPECT_EQ(fake_.num_alive(), 0) << "all are aborted";
    fake_.set(NcclFault::none);
    EXPECT_THAT(error_of([&] { sum_of_ranks(*clique, 3); }),
                StartsWith("failed_precondition: an earlier failure has ended"));
  }
}

TEST_F(NcclClique, ASumThatDoesNotEndEndsAtItsDeadline) {
  const auto clique = join(2, 100ms);
  fake_.set(NcclFault::endless_call, 1);
  EXPECT_THAT(error_of([&] { sum_of_ranks(*clique, 2); }),
              AllOf(StartsWith("deadline_exceeded: NCCL between GPU:0, GPU:1: after 100 ms "),
                    HasSubstr("GPU:1: all have come, and NCCL has not ended it")));
  EXPECT_EQ(fake_.num_aborted(), 2);
}

TEST_F(NcclClique, NamesTheDeviceWhoseStreamDoesNotCome) {
  const auto clique = join(3, 100ms);
  const Busy busy(2);
  EXPECT_THAT(error_of([&] { sum_of_ranks(*clique, 3); }),
              AllOf(StartsWith("deadline_exceeded"), HasSubstr(" ms GPU:2 has not come: its stream still does"),
                    Not(HasSubstr("GPU:1 has not come"))));
}

TEST_F(NcclClique, TakesTurnsWithOthers) {
  std::vector<std::thread> threads;
  std::atomic<int> num_right = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const int size = 2 + t % 2;
      const auto clique = join(size);
      for (int i = 0; i < 20; ++i)
        num_right += sum_of_ranks(*clique, size) == std::vector<float>(static_cast<size_t>(size), size == 2 ? 3 : 6);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_right, 80);
}

}  // namespace
}  // namespace tutti::nccl
