// What tests/nccl/fake_nccl.cpp complains of: calls by which NCCL would be undone, or hang, or give wrong numbers.
#include "tests/support/fake_nccl.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/dataset_values.h"
#include "tests/support/simulated_devices.h"
#include "tests/support/simulated_stream.h"
#include "tests/support/test_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/collectives/nccl/library.h"
#include "tutti/device/gpu.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using nccl::abi::DataType;
using nccl::abi::kSum;
using nccl::abi::Result;
using testing::Each;

constexpr size_t kCount = 6;

// Two members, of one thread, that have joined.
class TwoMembers {
 public:
  explicit TwoMembers(const FakeNccl& fake) : call(nccl::load(fake.environment()).call) {
    nccl::abi::UniqueId id;
    call.GetUniqueId(&id);
    call.GroupStart();
    for (int rank = 0; rank < 2; ++rank) {
      const c10::DeviceGuard guard(gpu_device(rank));
      nccl::abi::Config config;
      call.CommInitRankConfig(&members[rank], 2, id, rank, &config);
      values.push_back(at::full({int64_t{kCount}}, rank + 1, at::TensorOptions(gpu_device(rank)).dtype(at::kFloat)));
    }
    call.GroupEnd();
    settle();
  }
  ~TwoMembers() {
    for (nccl::abi::Communicator* const member : members)
      if (member) call.CommAbort(member);
  }
  TwoMembers(const TwoMembers&) = delete;

  nccl::abi::Stream stream(int rank) const {
    c10::Stream current = current_simulated_stream(rank);
    return current.native_handle();
  }
  // A member's part in the sum of both.
  Result add(int rank) { return add(rank, kCount, DataType::float32, stream(rank)); }
  Result add(int rank, size_t count, DataType type, nccl::abi::Stream on) {
    void* const memory = values[static_cast<size_t>(rank)].mutable_data_ptr();
    return call.AllReduce(memory, memory, count, type, kSum, members[rank], on);
  }
  // What each member calls, in one group of calls; then until NCCL has taken all of it over.
  void as_group(const std::function<void()>& calls) {
    call.GroupStart();
    calls();
    call.GroupEnd();
    settle();
  }
  void settle() {
    for (nccl::abi::Communicator* const member : members)
      for (Result state = Result::in_progress; member && state == Result::in_progress; std::this_thread::yield())
        call.CommGetAsyncError(member, &state);
  }
  void wait_for_streams() {
    for (int rank = 0; rank < 2; ++rank) current_simulated_stream(rank).synchronize();
  }

  const nccl::abi::Functions& call;
  nccl::abi::Communicator* members[2] = {};
  std::vector<at::Tensor> values;
};

struct Mistake {
  const char* name;
  std::function<void(TwoMembers&)> make;
  const char* complaint;
};

const Mistake kMistakes[] = {
    {"OtherOrder",
     [](TwoMembers& two) {
       two.as_group([&] {
         two.add(0);
         two.call.Broadcast(two.values[0].const_data_ptr(), two.values[0].mutable_data_ptr(), kCount, DataType::float32,
                            0, two.members[0], two.stream(0));
         two.call.Broadcast(two.values[1].const_data_ptr(), two.values[1].mutable_data_ptr(), kCount, DataType::float32,
                            0, two.members[1], two.stream(1));
         two.add(1);
       });
     },
     "members make different calls"},
    {"OtherCount",
     [](TwoMembers& two) {
       two.as_group([&] {
         two.add(0);
         two.add(1, kCount - 1, DataType::float32, two.stream(1));
       });
     },
     "members make different calls"},
    {"OtherDtype",
     [](TwoMembers& two) {
       two.as_group([&] {
         two.add(0);
         two.add(1, kCount, DataType::int32, two.stream(1));
       });
     },
     "members make different calls"},
    {"OtherRoot",
     [](TwoMembers& two) {
       two.as_group([&] {
         for (const int rank : {0, 1}) {
           void* const memory = two.values[static_cast<size_t>(rank)].mutable_data_ptr();
           two.call.Broadcast(memory, memory, kCount, DataType::float32, rank, two.members[rank], two.stream(rank));
         }
       });
     },
     "members make different calls"},
    {"ReceiveOfAnotherSize",
     [](TwoMembers& two) {
       two.as_group([&] {
         two.call.Send(two.values[0].const_data_ptr(), kCount, DataType::float32, 1, two.members[0], two.stream(0));
         two.call.Recv(two.values[1].mutable_data_ptr(), kCount - 2, DataType::float32, 0, two.members[1],
                       two.stream(1));
       });
     },
     "a receive is of another size than its send"},
    {"NoGroup",
     [](TwoMembers& two) {
       two.add(0);
       two.add(1);
     },
     "a thread calls for two members outside of a group"},
    {"EndOfNoGroup", [](TwoMembers& two) { two.call.GroupEnd(); }, "a group ends that was not begun"},
    {"CallBeforeTheLastWasTakenOver",
     [](TwoMembers& two) {
       two.add(0);
       two.add(0);
     },
     "a call before the last one was taken over"},
    {"NoStream", [](TwoMembers& two) { two.as_group([&] { two.add(0, kCount, DataType::float32, nullptr); }); },
     "a call on no stream"},
    {"StreamOfAnotherDevice",
     [](TwoMembers& two) { two.as_group([&] { two.add(0, kCount, DataType::float32, two.stream(1)); }); },
     "a call on another device's stream"},
    {"SeveralStreams",
     [](TwoMembers& two) {
       two.as_group([&] {
         two.add(0);
         c10::Stream other = simulated_stream_of_program(0, 1);
         two.add(0, kCount, DataType::float32, other.native_handle());
       });
     },
     "a group of calls on several streams"},
    {"MemoryOfAnotherDevice",
     [](TwoMembers& two) {
       std::swap(two.values[0], two.values[1]);
       two.as_group([&] { two.add(0); });
     },
     "a call with another device's memory"},
    {"NoMemory",
     [](TwoMembers& two) {
       two.call.AllReduce(nullptr, nullptr, kCount, DataType::float32, kSum, two.members[0], two.stream(0));
     },
     "a call without memory"},
    {"PeerThatIsNotThere",
     [](TwoMembers& two) {
       two.call.Send(two.values[0].const_data_ptr(), kCount, DataType::float32, 2, two.members[0], two.stream(0));
     },
     "a call to nobody"},
    {"DestroyedUnfinalized", [](TwoMembers& two) { two.call.CommDestroy(std::exchange(two.members[0], nullptr)); },
     "a communicator is destroyed that was not finalized"},
    {"FinalizedTwice",
     [](TwoMembers& two) {
       two.call.CommFinalize(two.members[0]);
       two.call.CommFinalize(two.members[0]);
     },
     "a communicator is finalized twice"},
    {"UsedWhenItIsGone",
     [](TwoMembers& two) {
       nccl::abi::Communicator* const gone = std::exchange(two.members[0], nullptr);
       two.call.CommAbort(gone);
       two.call.CommFinalize(gone);
     },
     "a communicator is used that is not there"},
};

class FakeNcclComplains : public testing::TestWithParam<Mistake> {
 protected:
  void SetUp() override {
    if (test_devices_are_cpus()) GTEST_SKIP() << "needs TUTTI_TEST_DEVICE=gpus";
    if (gpu_device(0).is_cuda()) GTEST_SKIP() << "on a real GPU: the fake adds in the memory of simulated ones";
  }
  const Watchdog watchdog{60s};
};

INSTANTIATE_TEST_SUITE_P(Of, FakeNcclComplains, testing::ValuesIn(kMistakes),
                         [](const auto& mistake) { return std::string(mistake.param.name); });

// And does not hang: a member that is left waiting is aborted.
TEST_P(FakeNcclComplains, ButNotOfTheSameDoneRightly) {
  const FakeNccl fake;
  {
    TwoMembers two(fake);
    two.as_group([&] {
      for (const int rank : {0, 1}) two.add(rank);
    });
    two.wait_for_streams();
    for (const at::Tensor& value : two.values) EXPECT_THAT(numbers(value), Each(3));
    EXPECT_EQ(fake.complaint(), "");
    GetParam().make(two);
    for (int i = 0; i < 1000 && fake.complaint().empty(); ++i) std::this_thread::sleep_for(1ms);
  }
  for (int rank = 0; rank < 2; ++rank) current_simulated_stream(rank).synchronize();
  EXPECT_EQ(fake.take_complaint(), GetParam().complaint);
}

}  // namespace
}  // namespace tutti
