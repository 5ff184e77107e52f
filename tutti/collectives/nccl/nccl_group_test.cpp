#include "tutti/collectives/nccl/nccl_group.h"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <complex>
#include <optional>
#include <thread>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_nccl.h"
#include "tests/support/simulated_devices.h"
#include "tests/support/watchdog.h"
#include "tutti/collectives/local/half.h"
#include "tutti/collectives/local/local_group.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Kind = CollectiveKind;

// Two members, and a fake that only they have seen.
class NcclGroup : public testing::Test {
 protected:
  JoinedByNccl join(std::chrono::milliseconds timeout = 20s, int size = 2) {
    return join_by_nccl(local_groups(size, {.timeout = timeout}), timeout, [&](int) { return fake_.environment(); });
  }
  Groups joined(std::chrono::milliseconds timeout = 20s, int size = 2) {
    JoinedByNccl result = join(timeout, size);
    for (const std::string& error : result.errors) EXPECT_EQ(error, "no error");
    return std::move(result.groups);
  }
  static std::vector<std::string> on_all(const Groups& groups, const std::function<void(Group&)>& f) {
    return on_all_members(groups, MembersAre::threads, f);
  }
  // What each member's sum of one number ends with.
  static std::vector<std::string> errors_of_sum(const Groups& groups) {
    return on_all(groups, [](Group& group) { sum_of_ranks(group); });
  }
  static float sum_of_ranks(Group& group) {
    float value = static_cast<float>(group.rank() + 1);
    group.run({.kind = Kind::all_reduce,
               .count = 1,
               .input = &value,
               .output = &value,
               .place = BufferPlace::device,
               .name = "loss"});
    return value;
  }
  static void expect_no_errors(const std::vector<std::string>& errors) {
    for (const std::string& error : errors) EXPECT_EQ(error, "");
  }

  const Watchdog watchdog_{60s};
  const FakeNccl fake_;
};

TEST_F(NcclGroup, JoinsAddsAndLeaves) {
  Groups groups = joined(20s, 3);
  EXPECT_EQ(fake_.num_alive(), 3);
  expect_no_errors(on_all(groups, [](Group& group) {
    EXPECT_EQ(group.device(), group.rank());
    EXPECT_EQ(sum_of_ranks(group), 6);
  }));
  groups.clear();
  EXPECT_EQ(fake_.num_alive(), 0);
  EXPECT_EQ(fake_.num_aborted(), 0) << "who is done says goodbye";
}

TEST_F(NcclGroup, LeavesHostMemoryToTheCompanion) {
  const Groups groups = joined();
  expect_no_errors(on_all(groups, [](Group& group) {
    int16_t value = 3;
    group.run({.kind = Kind::all_reduce, .dtype = Dtype::int16, .count = 1, .input = &value, .output = &value});
    EXPECT_EQ(value, 6);
  }));
  EXPECT_EQ(fake_.calls(), "");
}

TEST_F(NcclGroup, ExchangesPartsInOneGroupOfCalls) {
  const Groups groups = joined();
  expect_no_errors(on_all(groups, [](Group& group) {
    const int32_t input[] = {10 * group.rank(), 10 * group.rank() + 1};
    int32_t output[2] = {};
    group.run({.kind = Kind::all_to_all,
               .dtype = Dtype::int32,
               .count = 1,
               .input = input,
               .output = output,
               .place = BufferPlace::device});
    EXPECT_THAT(output, testing::ElementsAre(group.rank(), 10 + group.rank()));
  }));
  EXPECT_EQ(fake_.calls(), " ncclGroupStart ncclSend ncclRecv ncclSend ncclRecv ncclGroupEnd");
}

// On the stream that `next` is, until it is destroyed.
struct OnStream {
  explicit OnStream(c10::Stream next)
      : previous(c10::impl::VirtualGuardImpl(next.device_type()).exchangeStream(next)) {}
  ~OnStream() { c10::impl::VirtualGuardImpl(previous.device_type()).exchangeStream(previous); }
  c10::Stream previous;
};

void enqueue(c10::Stream stream, std::function<void()> work) {
  auto* const handle = static_cast<SimulatedStream*>(stream.native_handle());
  const auto run = [](void* argument) {
    const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(argument));
    (*owned)();
  };
  handle->enqueue(handle, run, new std::function<void()>(std::move(work)));
}

TEST_F(NcclGroup, ComesBehindWhatTheCurrentStreamWasGivenAndWaitsForNoOther) {
  const Groups groups = joined();
  std::atomic<bool> is_over = false;
  expect_no_errors(on_all(groups, [&](Group& group) {
    const c10::Device device = simulated_device(group.rank());
    const c10::impl::VirtualGuardImpl devices(device.type());
    enqueue(devices.getDefaultStream(device), [&] {
      while (!is_over) std::this_thread::sleep_for(1ms);
    });
    const OnStream on_own(devices.getStreamFromGlobalPool(device, false));
    float value = 0;
    enqueue(devices.getStream(device), [&] {
      std::this_thread::sleep_for(20ms);
      value = 2;
    });
    group.run({.kind = Kind::all_reduce, .count = 1, .input = &value, .output = &value, .place = BufferPlace::device});
    EXPECT_EQ(value, 4);
  }));
  is_over = true;
  for (const int rank : {0, 1}) c10::Stream(c10::Stream::DEFAULT, simulated_device(rank)).synchronize();
}

TEST_F(NcclGroup, JoinsWithTheDeviceWhateverIsCurrent) {
  const Groups groups = joined();
  expect_no_errors(on_all(groups, [](Group& group) {
    c10::impl::VirtualGuardImpl(simulated_device(0).type()).setDevice(simulated_device(7));
    EXPECT_EQ(sum_of_ranks(group), 3);
    EXPECT_EQ(current_simulated_device(), 7) << "is put back";
  }));
}

TEST_F(NcclGroup, DividesSumsOfEveryFloatingPointDtype) {
  const Groups groups = joined();
  const auto mean = [](Group& group, Dtype dtype, auto value) {
    group.run({.kind = Kind::all_reduce,
               .dtype = dtype,
               .count = 1,
               .input = &value,
               .output = &value,
               .place = BufferPlace::device,
               .divisor = 2});
    return value;
  };
  expect_no_errors(on_all(groups, [&](Group& group) {
    const double own = group.rank() == 0 ? 1 : 4;
    const auto narrow = static_cast<float>(own);
    EXPECT_EQ(mean(group, Dtype::float64, own), 2.5);
    EXPECT_EQ(mean(group, Dtype::float32, narrow), 2.5F);
    EXPECT_EQ(to_float(mean(group, Dtype::float16, to_half(narrow))), 2.5F);
    EXPECT_EQ(to_float(mean(group, Dtype::bfloat16, to_bfloat16(narrow))), 2.5F);
    EXPECT_EQ(mean(group, Dtype::complex64, std::complex<float>(narrow, 2)), std::complex<float>(2.5F, 2));
    EXPECT_EQ(mean(group, Dtype::complex128, std::complex<double>(own, 2)), std::complex<double>(2.5, 2));
  }));
}

TEST_F(NcclGroup, RefusesToAddInt16AndGoesOn) {
  const Groups groups = joined();
  expect_no_errors(on_all(groups, [](Group& group) {
    int16_t value = static_cast<int16_t>(5 + group.rank());
    Collective call{.kind = Kind::all_reduce,
                    .dtype = Dtype::int16,
                    .count = 1,
                    .input = &value,
                    .output = &value,
                    .place = BufferPlace::device};
    EXPECT_THAT(error_of([&] { group.run(call); }),
                AllOf(StartsWith("unimplemented: all_reduce of 1 int16"), HasSubstr("convert it to int32 first")));
    call.kind = Kind::broadcast;
    group.run(call);
    EXPECT_EQ(value, 5);
  }));
}

TEST_F(NcclGroup, ComparesCallsBeforeNcclLearnsOfThem) {
  const Groups groups = joined();
  const auto errors = on_all(groups, [](Group& group) {
    float values[2] = {};
    group.run({.kind = Kind::all_reduce,
               .count = group.rank() + 1,
               .input = values,
               .output = values,
               .place = BufferPlace::device,
               .name = "loss"});
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error,
                AllOf(StartsWith("failed_precondition"), HasSubstr("rank 0 makes all_reduce of 1 float32 'loss'"),
                      HasSubstr("rank 1 makes all_reduce of 2 float32 'loss'")));
  EXPECT_EQ(fake_.calls(), "");
  EXPECT_EQ(fake_.num_aborted(), 2);
}

TEST_F(NcclGroup, NamesACallOfWhichOneHasItsMemoryOnTheHost) {
  const Groups groups = joined();
  const auto errors = on_all(groups, [](Group& group) {
    float value = 0;
    group.run({.kind = Kind::all_reduce,
               .count = 1,
               .input = &value,
               .output = &value,
               .place = group.rank() == 0 ? BufferPlace::host : BufferPlace::device,
               .name = "loss"});
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(StartsWith("failed_precondition"), HasSubstr(", in device memory")));
}

TEST(HostGroup, RefusesDeviceMemory) {
  const Groups groups = local_groups(1);
  float value = 0;
  EXPECT_EQ(groups[0]->device(), std::nullopt);
  EXPECT_THAT(
      error_of([&] {
        groups[0]->run(
            {.kind = Kind::all_reduce, .count = 1, .input = &value, .output = &value, .place = BufferPlace::device});
      }),
      AllOf(StartsWith("unimplemented"), HasSubstr("this group moves host memory alone")));
  groups[0]->run({});
}

// --- who cannot join ---

TEST_F(NcclGroup, RefusesAGpuThatIsNotThere) {
  EXPECT_THAT(
      error_of([&] { nccl_group(std::move(local_groups(1)[0]), c10::Device(c10::kCUDA, 0), {}, fake_.environment()); }),
      AllOf(StartsWith("not_found"), HasSubstr("there is no GPU:0; LibTorch sees 0 GPUs")));
  EXPECT_THAT(error_of([&] {
                nccl_group(std::move(local_groups(1)[0]), simulated_device(kSimulatedDevices), {}, fake_.environment());
              }),
              AllOf(StartsWith("not_found"), HasSubstr("there is no GPU:9; LibTorch sees 9 GPUs")));
}

TEST_F(NcclGroup, AMemberWithoutNcclIsNamedToTheOthers) {
  const auto [groups, errors] = join_by_nccl(local_groups(3), 20s, [&](int rank) {
    return rank == 1 ? cluster::Environment(cluster::Environment::Variables{{"TUTTI_NCCL_LIBRARY", "/none.so"}})
                     : fake_.environment();
  });
  EXPECT_THAT(errors[1], StartsWith("not_found: TUTTI_NCCL_LIBRARY names"));
  for (const int rank : {0, 2})
    EXPECT_THAT(errors[static_cast<size_t>(rank)],
                StartsWith("failed_precondition: rank 1 cannot use NCCL: TUTTI_NCCL_LIBRARY names \"/none.so\""));
}

TEST_F(NcclGroup, MembersWithDifferentVersionsAreNamed) {
  const FakeNccl newer;
  newer.set_version(23203);
  const auto [groups, errors] = join_by_nccl(
      local_groups(2), 20s, [&](int rank) { return rank == 1 ? newer.environment() : fake_.environment(); });
  EXPECT_THAT(errors[0], StartsWith("failed_precondition: rank 1 has NCCL 2.32.3, and this member 2.29.7"));
  EXPECT_THAT(errors[1], StartsWith("failed_precondition: rank 0 has NCCL 2.29.7, and this member 2.32.3"));
}

TEST_F(NcclGroup, WithoutAnIdNobodyJoins) {
  fake_.set(NcclFault::no_id);
  const auto errors = join().errors;
  EXPECT_THAT(errors[0], AllOf(StartsWith("unavailable"), HasSubstr("ncclGetUniqueId")));
  EXPECT_THAT(errors[1],
              AllOf(StartsWith("failed_precondition: rank 0 cannot use NCCL"), HasSubstr("ncclGetUniqueId")));
}

TEST_F(NcclGroup, TwoMembersOfOneGpuAreToldSo) {
  const auto [groups, errors] = join_by_nccl(
      local_groups(2), 20s, [&](int) { return fake_.environment(); }, [](int) { return 3; });
  for (const std::string& error : errors)
    EXPECT_THAT(error, AllOf(HasSubstr("cannot join by NCCL with GPU:3"), HasSubstr("Duplicate GPU detected"),
                             HasSubstr("each member needs a GPU of its own")));
}

TEST_F(NcclGroup, AFailureToJoinEndsTheWaitingOfAll) {
  for (const NcclFault fault : {NcclFault::failed_start, NcclFault::failed_join}) {
    fake_.set(fault, 1);
    const auto errors = join().errors;
    EXPECT_THAT(errors[1], HasSubstr("rank 1 of 2 cannot join by NCCL with GPU:1: NCCL 2.29.7"));
    EXPECT_THAT(errors[0], HasSubstr("rank 1 has given up: rank 1 of 2 cannot join by NCCL with GPU:1"));
  }
}

TEST_F(NcclGroup, JoiningEndsAtItsDeadline) {
  fake_.set(NcclFault::endless_join);
  const auto errors = join(50ms).errors;
  EXPECT_THAT(errors, testing::Contains(AllOf(StartsWith("deadline_exceeded: rank "),
                                              HasSubstr("after 50 ms NCCL has not ended it"))));
  for (const std::string& error : errors) EXPECT_THAT(error, HasSubstr("cannot join by NCCL"));
  EXPECT_EQ(fake_.num_aborted(), 2);
}

// --- what fails under way ---

// A failure of rank 1 in NCCL ends the call of both, and every later one.
class NcclFailure : public NcclGroup, public testing::WithParamInterface<std::tuple<NcclFault, const char*>> {};

TEST_P(NcclFailure, OfOneMemberEndsTheCallsOfAll) {
  const auto [fault, said] = GetParam();
  Groups groups = joined();
  expect_no_errors(errors_of_sum(groups));
  fake_.set(fault, 1);
  for (int call = 0; call < 2; ++call) {
    const auto errors = errors_of_sum(groups);
    EXPECT_THAT(errors[1], AllOf(HasSubstr("rank 1 of 2, all_reduce of 1 float32 'loss'"), HasSubstr(said)));
    EXPECT_THAT(errors[0], AllOf(StartsWith("cancelled"), HasSubstr("rank 1 has given up"), HasSubstr(said)));
  }
  EXPECT_EQ(fake_.num_aborted(), 2);
  groups.clear();
  EXPECT_EQ(fake_.num_alive(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, NcclFailure,
    testing::Values(std::tuple(NcclFault::failed_call, "unhandled system error (Call to ibv_reg_mr failed)"),
                    std::tuple(NcclFault::failed_settling, "unhandled cuda error"),
                    std::tuple(NcclFault::failed_on_device, "remote process exited or there was a network error")));

TEST_F(NcclGroup, ACallThatDoesNotEndEndsAtItsDeadline) {
  const Groups groups = joined(100ms);
  fake_.set(NcclFault::endless_call, 1);
  const auto errors = errors_of_sum(groups);
  EXPECT_THAT(errors, testing::Contains(AllOf(StartsWith("deadline_exceeded"),
                                              HasSubstr("all_reduce of 1 float32 'loss' at nccl_group_test.cpp"),
                                              HasSubstr("after 100 ms NCCL has not ended it"))));
  for (const std::string& error : errors) EXPECT_NE(error, "");
  EXPECT_EQ(fake_.num_aborted(), 2);
}

TEST_F(NcclGroup, NamesAMemberThatDoesNotComeAndAborts) {
  const Groups groups = joined(50ms);
  const auto errors = on_all(groups, [](Group& group) {
    if (group.rank() == 0) sum_of_ranks(group);
  });
  EXPECT_THAT(errors[0], AllOf(StartsWith("deadline_exceeded"), HasSubstr("rank 1 has not come")));
  EXPECT_EQ(fake_.num_aborted(), 1);
}

TEST_F(NcclGroup, AnotherThreadMayGiveUpForAMemberThatWaits) {
  const Groups groups = joined();
  fake_.set(NcclFault::endless_call);
  std::thread giving_up([&] {
    std::this_thread::sleep_for(20ms);
    groups[1]->abort("SIGTERM");
  });
  for (const std::string& error : errors_of_sum(groups))
    EXPECT_THAT(error, AllOf(StartsWith("cancelled"), HasSubstr("rank 1 has given up: SIGTERM")));
  giving_up.join();
  EXPECT_EQ(fake_.num_aborted(), 2);
}

// A companion whose rank 1 is lost when it is told to.
class LosingCompanion final : public Group {
 public:
  LosingCompanion(std::unique_ptr<Group> group, const std::atomic<bool>& has_lost)
      : Group(group->rank(), group->size()), group_(std::move(group)), has_lost_(has_lost) {}
  void abort(const std::string& cause) override { group_->abort(cause); }
  std::optional<Error> obstacle_to(const Collective& call) override {
    if (has_lost_ && rank() == 0) return Error(ErrorCode::unavailable, "rank 1 (process 7) has ended without a word");
    return group_->obstacle_to(call);
  }

 protected:
  void execute(const Collective& call) override { group_->run(call); }

 private:
  const std::unique_ptr<Group> group_;
  const std::atomic<bool>& has_lost_;
};

class NcclGroupThatLoses : public NcclGroup {
 protected:
  Groups joined_with_losses() {
    Groups companions;
    for (auto& group : local_groups(2))
      companions.push_back(std::make_unique<LosingCompanion>(std::move(group), has_lost_));
    return join_by_nccl(std::move(companions), 20s, [&](int) { return fake_.environment(); }).groups;
  }
  std::atomic<bool> has_lost_ = false;
};

TEST_F(NcclGroupThatLoses, AMemberNamesIt) {
  const Groups groups = joined_with_losses();
  fake_.set(NcclFault::endless_call);
  has_lost_ = true;
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = errors_of_sum(groups);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s) << "long before the deadline";
  EXPECT_THAT(errors[0], AllOf(StartsWith("unavailable: rank 0 of 2, all_reduce of 1 float32 'loss'"),
                               HasSubstr("rank 1 (process 7) has ended without a word")));
}

TEST_F(NcclGroupThatLoses, AMemberThatHasDoneItsPartGoesOn) {
  const Groups groups = joined_with_losses();
  has_lost_ = true;
  expect_no_errors(on_all(groups, [](Group& group) {
    const c10::Device device = simulated_device(group.rank());
    enqueue(c10::impl::VirtualGuardImpl(device.type()).getStream(device), [] { std::this_thread::sleep_for(50ms); });
    EXPECT_EQ(sum_of_ranks(group), 3);
  }));
}

// --- how it ends ---

class NcclGoodbye : public NcclGroup, public testing::WithParamInterface<std::tuple<NcclFault, const char*>> {};

TEST_P(NcclGoodbye, ThatFailsIsAWarningAndLeavesNothingBehind) {
  const auto [fault, said] = GetParam();
  CollectedWarnings warnings;
  Groups groups = joined();
  expect_no_errors(errors_of_sum(groups));
  fake_.set(fault, 1);
  groups.clear();
  EXPECT_THAT(warnings.lines(),
              testing::ElementsAre(AllOf(HasSubstr("while rank 1 left the others: "), HasSubstr(said))));
  EXPECT_EQ(fake_.num_alive(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, NcclGoodbye,
                         testing::Values(std::tuple(NcclFault::failed_leave, "ncclCommFinalize"),
                                         std::tuple(NcclFault::endless_leave, "NCCL does not let go of its members"),
                                         std::tuple(NcclFault::failed_destroy, "ncclCommDestroy: internal error")));

}  // namespace
}  // namespace tutti
