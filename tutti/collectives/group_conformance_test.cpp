// What every implementation of Group must do, run with members that are threads, and with processes where they can be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_nccl.h"
#include "tests/support/gpu_members.h"
#include "tests/support/group_members.h"
#include "tests/support/launched_members.h"
#include "tests/support/mpi_in_memory.h"
#include "tests/support/ring_members.h"
#include "tests/support/shared_array.h"
#include "tutti/collectives/collective_queue.h"
#include "tutti/collectives/group.h"
#include "tutti/collectives/local/half.h"
#include "tutti/collectives/local/local_group.h"
#include "tutti/collectives/shared_memory/shared_memory_group.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using Kind = CollectiveKind;
using Bytes = std::vector<std::byte>;

struct Implementation {
  std::string name;
  std::function<Groups(int size, std::chrono::milliseconds timeout)> make;
  MembersAre members = MembersAre::threads;
  bool sums_as_nccl = false;                        // which adds no int16, and divides what it adds, not the sum
  std::chrono::milliseconds short_deadline = 50ms;  // within which all join
};

[[maybe_unused]] Groups shared_memory_groups(int size, std::chrono::milliseconds timeout) {
  const FileDescriptor memory = create_group_memory(size);
  Groups groups;
  for (int rank = 0; rank < size; ++rank)
    groups.push_back(shared_memory_group(memory.number(), rank, {.timeout = timeout}));
  return groups;
}

// TUTTI_RING_OF_PROCESSES: for a binary of its own, as a process that has used gRPC cannot fork others that will.
// TUTTI_GROUPS_BY_MPI: for one that mpirun starts. TUTTI_NCCL_OF_PROCESSES: for one that needs a GPU, of which nothing
// may have been asked before a fork.
std::vector<Implementation> implementations() {
#if defined(TUTTI_RING_OF_PROCESSES)
  return {{"ring_of_processes", ring_of_processes, MembersAre::processes}};
#elif defined(TUTTI_GROUPS_BY_MPI)
  return {{"mpi", groups_by_mpi, MembersAre::launched}};
#elif defined(TUTTI_NCCL_OF_PROCESSES)
  return {{"nccl_of_processes", nccl_of_processes, MembersAre::processes, /*sums_as_nccl=*/true,
           /*short_deadline=*/8s}};
#else
  return {
      {"local", [](int size, std::chrono::milliseconds timeout) { return local_groups(size, {.timeout = timeout}); }},
      {"shared_memory_of_threads", shared_memory_groups},
      {"shared_memory_of_processes", shared_memory_groups, MembersAre::processes},
      {"ring_of_threads", [](int size, std::chrono::milliseconds timeout) { return ring_of_threads(size, timeout); }},
      {"mpi_of_threads", mpi_of_threads},
      {"nccl_of_threads", nccl_of_threads, MembersAre::threads, /*sums_as_nccl=*/true},
  };
#endif
}

constexpr Dtype kDtypes[] = {Dtype::float32,   Dtype::float64,    Dtype::float16, Dtype::bfloat16,
                             Dtype::complex64, Dtype::complex128, Dtype::int8,    Dtype::uint8,
                             Dtype::int16,     Dtype::int32,      Dtype::int64};

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

// Writes a whole number that every dtype holds exactly.
void put_number(std::byte* at, Dtype dtype, int number) {
  switch (dtype) {
    case Dtype::float32: return put(at, static_cast<float>(number));
    case Dtype::float64: return put(at, static_cast<double>(number));
    case Dtype::float16: return put(at, to_half(static_cast<float>(number)));
    case Dtype::bfloat16: return put(at, to_bfloat16(static_cast<float>(number)));
    case Dtype::complex64: return put(at, std::complex<float>(static_cast<float>(number), 1));
    case Dtype::complex128: return put(at, std::complex<double>(number, 1));
    case Dtype::int8:
    case Dtype::uint8: return put(at, static_cast<uint8_t>(number));
    case Dtype::int16: return put(at, static_cast<int16_t>(number));
    case Dtype::int32: return put(at, int32_t{number});
    case Dtype::int64: return put(at, int64_t{number});
  }
}

// Element i of member `rank`: small, so that sums of nine stay exact in each dtype.
int number_of(int rank, int64_t i) { return static_cast<int>((i * 7 + rank * 3) % 11); }

Bytes numbers(Dtype dtype, int64_t count, const std::function<int(int64_t)>& number) {
  Bytes bytes(static_cast<size_t>(count) * size_of(dtype));
  for (int64_t i = 0; i < count; ++i)
    put_number(bytes.data() + static_cast<size_t>(i) * size_of(dtype), dtype, number(i));
  return bytes;
}

Bytes input_of(Dtype dtype, int64_t count, int rank) {
  return numbers(dtype, count, [&](int64_t i) { return number_of(rank, i); });
}

// The sum of all members' elements [begin, begin + count). The imaginary part of each element is 1.
Bytes sum_of(Dtype dtype, int64_t begin, int64_t count, int size) {
  Bytes bytes = numbers(dtype, count, [&](int64_t i) {
    int sum = 0;
    for (int rank = 0; rank < size; ++rank) sum += number_of(rank, begin + i);
    return sum;
  });
  for (int64_t i = 0; i < count; ++i) {
    std::byte* imaginary = bytes.data() + static_cast<size_t>(i) * size_of(dtype) + size_of(dtype) / 2;
    if (dtype == Dtype::complex64) put(imaginary, static_cast<float>(size));
    if (dtype == Dtype::complex128) put(imaginary, static_cast<double>(size));
  }
  return bytes;
}

void expect_no_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

class GroupConformance : public testing::TestWithParam<std::tuple<Implementation, int>> {
 protected:
#ifdef TUTTI_NCCL_OF_PROCESSES
  void SetUp() override {
    if (!a_process_sees_a_gpu()) GTEST_SKIP() << "needs a GPU";
  }
#endif
  bool sums_as_nccl() const { return std::get<0>(GetParam()).sums_as_nccl; }
  std::vector<Dtype> summed_dtypes() const {
    std::vector<Dtype> dtypes(std::begin(kDtypes), std::end(kDtypes));
    if (sums_as_nccl()) std::erase(dtypes, Dtype::int16);
    return dtypes;
  }
  std::chrono::milliseconds short_deadline() const { return std::get<0>(GetParam()).short_deadline; }
  int size() const { return std::get<1>(GetParam()); }
  Groups make(std::chrono::milliseconds timeout = 60s) const { return std::get<0>(GetParam()).make(size(), timeout); }
  std::vector<std::string> on_all(const Groups& groups, const std::function<void(Group&)>& f) const {
    return on_all_members(groups, std::get<0>(GetParam()).members, f);
  }
};

TEST_P(GroupConformance, SumsEveryDtypeOnAllMembers) {
  const Groups groups = make();
  expect_no_errors(on_all(groups, [&](Group& group) {
    for (const Dtype dtype : summed_dtypes())
      for (const int64_t count : {0, 1, 2, 31, 1009, 70'001})
        for (const bool in_place : {false, true}) {
          Bytes input = input_of(dtype, count, group.rank());
          Bytes output(input.size());
          void* result = in_place ? input.data() : output.data();
          group.run(
              {.kind = Kind::all_reduce, .dtype = dtype, .count = count, .input = input.data(), .output = result});
          EXPECT_EQ(in_place ? input : output, sum_of(dtype, 0, count, size()))
              << to_string(dtype) << ' ' << count << (in_place ? " in place" : "");
        }
  }));
}

// Of which some groups have none, for all of their members.
TEST_P(GroupConformance, SumsInSharedMemory) {
  const Groups groups = make();
  const bool has_such = std::get<0>(GetParam()).name.starts_with("shared_memory") && size() > 1;
  expect_no_errors(on_all(groups, [&](Group& group) {
    for (const Dtype dtype : kDtypes)
      for (const int64_t count : {0, 1, 2, 31, 1009, 70'001}) {
        const Bytes input = input_of(dtype, count, group.rank());
        const auto memory = group.allocate_shared(input.size());
        ASSERT_EQ(memory != nullptr, has_such);
        if (!has_such) return;
        EXPECT_GE(group.shared_bytes(memory.get()), input.size());
        std::ranges::copy(input, memory.get());
        group.run({.kind = Kind::all_reduce,
                   .dtype = dtype,
                   .count = count,
                   .input = memory.get(),
                   .output = memory.get(),
                   .place = BufferPlace::shared});
        EXPECT_TRUE(std::ranges::equal(sum_of(dtype, 0, count, size()), std::span(memory.get(), input.size())))
            << to_string(dtype) << ' ' << count;
      }
  }));
}

TEST_P(GroupConformance, ScattersSums) {
  const Groups groups = make();
  expect_no_errors(on_all(groups, [&](Group& group) {
    for (const Dtype dtype : summed_dtypes())
      for (const int64_t count : {0, 1, 31, 1009})
        for (const bool in_place : {false, true}) {
          Bytes input = input_of(dtype, count * size(), group.rank());
          const size_t part_bytes = static_cast<size_t>(count) * size_of(dtype);
          Bytes output(part_bytes);
          std::byte* own = input.data() + part_bytes * static_cast<size_t>(group.rank());
          group.run({.kind = Kind::reduce_scatter,
                     .dtype = dtype,
                     .count = count,
                     .input = input.data(),
                     .output = in_place ? own : output.data()});
          if (in_place) output.assign(own, own + part_bytes);
          EXPECT_EQ(output, sum_of(dtype, count * group.rank(), count, size())) << to_string(dtype) << ' ' << count;
        }
  }));
}

TEST_P(GroupConformance, GathersInRankOrder) {
  const Groups groups = make();
  expect_no_errors(on_all(groups, [&](Group& group) {
    for (const Dtype dtype : kDtypes)
      for (const int64_t count : {0, 1, 31, 1009})
        for (const bool in_place : {false, true}) {
          const Bytes input = input_of(dtype, count, group.rank());
          Bytes output(input.size() * static_cast<size_t>(size())), expected;
          std::byte* own = output.data() + input.size() * static_cast<size_t>(group.rank());
          if (in_place) std::ranges::copy(input, own);
          group.run({.kind = Kind::all_gather,
                     .dtype = dtype,
                     .count = count,
                     .input = in_place ? own : input.data(),
                     .output = output.data()});
          for (int rank = 0; rank < size(); ++rank)
            std::ranges::copy(input_of(dtype, count, rank), back_inserter(expected));
          EXPECT_EQ(output, expected) << to_string(dtype) << ' ' << count;
        }
  }));
}

TEST_P(GroupConformance, ExchangesParts) {
  const Groups groups = make();
  expect_no_errors(on_all(groups, [&](Group& group) {
    for (const Dtype dtype : {Dtype::uint8, Dtype::float32, Dtype::complex128})
      for (const int64_t count : {0, 1, 31, 1009}) {
        const Bytes input = input_of(dtype, count * size(), group.rank());
        Bytes output(input.size());
        group.run(
            {.kind = Kind::all_to_all, .dtype = dtype, .count = count, .input = input.data(), .output = output.data()});
        const Bytes expected = numbers(dtype, count * size(), [&](int64_t i) {
          return number_of(static_cast<int>(i / count), count * group.rank() + i % count);
        });
        EXPECT_EQ(output, expected) << to_string(dtype) << ' ' << count;
      }
  }));
}

TEST_P(GroupConformance, BroadcastsFromEachMember) {
  const Groups groups = make();
  expect_no_errors(on_all(groups, [&](Group& group) {
    for (int root = 0; root < size(); ++root)
      for (const int64_t count : {0, 1, 1009}) {
        Bytes buffer = input_of(Dtype::int16, count, group.rank());
        group.run({.kind = Kind::broadcast,
                   .dtype = Dtype::int16,
                   .count = count,
                   .input = buffer.data(),
                   .output = buffer.data(),
                   .peer = root});
        EXPECT_EQ(buffer, input_of(Dtype::int16, count, root));
      }
  }));
}

TEST_P(GroupConformance, SendsRoundTheRing) {
  if (size() == 1) return;  // nobody to send to
  const Groups groups = make();
  expect_no_errors(on_all(groups, [&](Group& group) {
    const int next = (group.rank() + 1) % size(), previous = (group.rank() + size() - 1) % size();
    for (int64_t count = 0; count < 200; ++count) {
      const Bytes input = input_of(Dtype::float32, count, group.rank());
      Bytes output(input.size());
      const Collective send{.kind = Kind::send, .count = count, .input = input.data(), .peer = next};
      const Collective receive{.kind = Kind::receive, .count = count, .output = output.data(), .peer = previous};
      group.run(group.rank() == 0 ? send : receive);
      group.run(group.rank() == 0 ? receive : send);
      EXPECT_EQ(output, input_of(Dtype::float32, count, previous));
    }
  }));
}

TEST_P(GroupConformance, HoldsMembersAtABarrier) {
  const Groups groups = make();
  const SharedArray<std::atomic<int>> shared(1);
  std::atomic<int>& num_arrived = shared[0];
  expect_no_errors(on_all(groups, [&](Group& group) {
    for (int round = 1; round <= 200; ++round) {
      ++num_arrived;
      group.run({});
      EXPECT_GE(num_arrived, round * size());
      group.run({});
    }
  }));
}

TEST_P(GroupConformance, DividesSumsToMeans) {
  const Groups groups = make();
  expect_no_errors(on_all(groups, [&](Group& group) {
    std::vector<double> values{1.0 * group.rank(), 3.0};
    group.run({.kind = Kind::all_reduce,
               .dtype = Dtype::float64,
               .count = 2,
               .input = values.data(),
               .output = values.data(),
               .divisor = static_cast<double>(size())});
    const double mean = (size() - 1) / 2.0;
    if (!sums_as_nccl()) {
      EXPECT_EQ(values, (std::vector<double>{mean, 3.0}));
    }
    EXPECT_DOUBLE_EQ(values[0], mean);
    EXPECT_DOUBLE_EQ(values[1], 3.0);
  }));
}

TEST_P(GroupConformance, SumsHaveTheSameBitsOnAllMembersAndInEveryRun) {
  const Groups groups = make();
  constexpr size_t count = 100'003;
  const SharedArray<float> results(groups.size() * count);
  for (int run = 0; run < 3; ++run) {
    expect_no_errors(on_all(groups, [&](Group& group) {
      std::mt19937 random(static_cast<unsigned>(group.rank()));
      std::normal_distribution<float> normal;
      std::vector<float> values(count);
      for (float& value : values) value = normal(random);
      const auto shared = group.allocate_shared(count * sizeof(float));
      if (shared) std::memcpy(shared.get(), values.data(), count * sizeof(float));
      group.run({.kind = Kind::all_reduce, .count = count, .input = values.data(), .output = values.data()});
      if (shared) {
        group.run({.kind = Kind::all_reduce,
                   .count = count,
                   .input = shared.get(),
                   .output = shared.get(),
                   .place = BufferPlace::shared});
        EXPECT_TRUE(
            std::ranges::equal(std::as_bytes(std::span(values)), std::span(shared.get(), count * sizeof(float))));
      }
      float* result = &results[static_cast<size_t>(group.rank()) * count];
      if (run > 0) {
        EXPECT_TRUE(std::equal(values.begin(), values.end(), result));
      }
      std::ranges::copy(values, result);
    }));
    for (size_t rank = 1; rank < groups.size(); ++rank)
      EXPECT_EQ(std::memcmp(&results[rank * count], &results[0], count * sizeof(float)), 0);
  }
}

TEST_P(GroupConformance, SumsMillionsOfElements) {
  if (size() > 3) return;  // as much work as all the others
  const Groups groups = make();
  const int64_t count = 5'000'003;
  expect_no_errors(on_all(groups, [&](Group& group) {
    std::vector<float> values(count, static_cast<float>(group.rank() + 1));
    group.run({.kind = Kind::all_reduce, .count = count, .input = values.data(), .output = values.data()});
    const float expected = static_cast<float>(size() * (size() + 1)) / 2;
    EXPECT_TRUE(std::ranges::all_of(values, [&](float value) { return value == expected; }));
  }));
}

TEST_P(GroupConformance, MovesMoreThanFitsAnyBufferBetween) {
  if (size() == 1 || size() > 3) return;
  const Groups groups = make();
  const int64_t count = 300'007;
  expect_no_errors(on_all(groups, [&](Group& group) {
    const Bytes input = input_of(Dtype::float64, count, group.rank());
    Bytes gathered(input.size() * static_cast<size_t>(size())), expected, received(input.size());
    group.run({.kind = Kind::all_gather,
               .dtype = Dtype::float64,
               .count = count,
               .input = input.data(),
               .output = gathered.data()});
    for (int rank = 0; rank < size(); ++rank)
      std::ranges::copy(input_of(Dtype::float64, count, rank), back_inserter(expected));
    EXPECT_TRUE(gathered == expected);
    std::vector<double> sums(count);
    group.run({.kind = Kind::reduce_scatter,
               .dtype = Dtype::float64,
               .count = count,
               .input = gathered.data(),
               .output = sums.data()});
    EXPECT_EQ(sums[count - 1], size() * number_of(group.rank(), count - 1));
    if (group.rank() == 0)
      group.run({.kind = Kind::send, .dtype = Dtype::float64, .count = count, .input = input.data(), .peer = 1});
    if (group.rank() == 1) {
      group.run({.kind = Kind::receive, .dtype = Dtype::float64, .count = count, .output = received.data()});
      EXPECT_TRUE(received == input_of(Dtype::float64, count, 0));
    }
  }));
}

TEST_P(GroupConformance, QueuesWhatIsStarted) {
  const Groups groups = make();
  expect_no_errors(on_all(groups, [&](Group& group) {
    CollectiveQueue queue(std::shared_ptr<Group>(std::shared_ptr<void>(), &group));  // which `groups` owns
    std::vector<std::vector<int64_t>> values(50);
    std::vector<std::future<void>> done;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = {static_cast<int64_t>(i), group.rank()};
      done.push_back(queue.start({.kind = Kind::all_reduce,
                                  .dtype = Dtype::int64,
                                  .count = 2,
                                  .input = values[i].data(),
                                  .output = values[i].data()}));
    }
    for (size_t i = values.size(); i-- > 0;) {
      done[i].get();
      EXPECT_EQ(values[i][0], static_cast<int64_t>(i) * size());
      EXPECT_EQ(values[i][1], size() * (size() - 1) / 2);
    }
  }));
}

TEST_P(GroupConformance, NamesBothOfTwoDifferentCalls) {
  if (size() == 1) return;
  const Collective calls[] = {
      {.kind = Kind::all_reduce, .count = 1, .name = "loss"},
      {.kind = Kind::broadcast, .count = 1, .name = "loss"},
      {.kind = Kind::all_reduce, .count = 2, .name = "loss"},
      {.kind = Kind::all_reduce, .dtype = Dtype::int32, .count = 1, .name = "loss"},
      {.kind = Kind::all_reduce, .count = 1, .divisor = 2, .name = "loss"},
      {.kind = Kind::all_reduce, .count = 1, .name = "gradients"},
      {.kind = Kind::barrier},
  };
  for (size_t other = 1; other < std::size(calls); ++other) {
    const Groups groups = make();
    const auto errors = on_all(groups, [&](Group& group) {
      float value[2] = {}, result[2] = {};
      Collective call = calls[group.rank() == size() - 1 ? other : 0];
      call.input = value;
      call.output = result;
      group.run(call);
    });
    for (const std::string& error : errors)
      EXPECT_THAT(error,
                  AllOf(HasSubstr("failed_precondition"), HasSubstr("rank 0 makes all_reduce of 1 float32 'loss' at"),
                        HasSubstr(str("rank ", size() - 1, " makes ", to_string(calls[other])))));
    EXPECT_THROW(groups[0]->run({}), Error) << "after a failure a group is of no more use";
  }
}

TEST_P(GroupConformance, ReleasesThoseThatWaitForALostMember) {
  if (size() == 1) return;
  for (const bool waits_before : {false, true}) {
    Groups groups = make();
    std::thread leaving([&, last = std::move(groups.back())]() mutable {
      if (!waits_before) std::this_thread::sleep_for(20ms);
      last.reset();
    });
    groups.pop_back();
    if (waits_before) leaving.join();
    for (const std::string& error : on_all(groups, [](Group& group) { group.run({.name = "the end"}); }))
      EXPECT_THAT(error,
                  AllOf(HasSubstr("unavailable"), HasSubstr(str("rank ", size() - 1)), HasSubstr("barrier 'the end'")));
    if (leaving.joinable()) leaving.join();
  }
}

TEST_P(GroupConformance, ReleasesThoseThatWaitForOneThatGivesUp) {
  if (size() == 1) return;
  const Groups groups = make();
  const auto errors = on_all(groups, [&](Group& group) {
    if (group.rank() == 1) return group.abort("the data ran out");
    group.run({});
  });
  EXPECT_EQ(errors[1], "");
  EXPECT_THAT(errors[0], AllOf(HasSubstr("cancelled"), HasSubstr("rank 1"), HasSubstr("the data ran out")));
}

TEST_P(GroupConformance, EndsAtItsDeadline) {
  if (size() == 1) return;
  const Groups groups = make(short_deadline());
  const auto errors = on_all(groups, [&](Group& group) {
    if (group.rank() == size() - 1) return;
    group.run({.kind = Kind::barrier, .name = "start"});
  });
  for (size_t rank = 0; rank + 1 < errors.size(); ++rank)
    EXPECT_THAT(errors[rank],
                AllOf(HasSubstr("deadline_exceeded"), HasSubstr(str(short_deadline().count(), " ms")),
                      HasSubstr("barrier 'start'"), HasSubstr(str("rank ", size() - 1, " has not come"))));
}

TEST_P(GroupConformance, RefusesASendWithoutItsReceive) {
  if (size() == 1) return;
  const Groups groups = make(short_deadline());
  float value = 0;
  const auto errors = on_all(groups, [&](Group& group) {
    if (group.rank() == 0) group.run({.kind = Kind::send, .count = 1, .input = &value, .peer = 1});
  });
  EXPECT_THAT(errors[0],
              AllOf(HasSubstr("deadline_exceeded"), HasSubstr("send to rank 1"), HasSubstr("rank 1 has not come")));
  const Groups unequal = make();
  float three[3] = {};
  for (const std::string& error : on_all(unequal, [&](Group& group) {
         if (group.rank() == 0) group.run({.kind = Kind::send, .count = 1, .input = &value, .peer = 1});
         if (group.rank() == 1) group.run({.kind = Kind::receive, .count = 3, .output = three, .peer = 0});
       }))
    EXPECT_TRUE(error.empty() || error.find("failed_precondition") == 0) << error;
}

TEST_P(GroupConformance, RefusesCallsThatCannotBeMadeAndGoesOn) {
  const Groups groups = make();
  float values[64] = {};
  const Collective refused[] = {
      {.kind = Kind::all_reduce, .count = -1, .input = values, .output = values},
      {.kind = Kind::all_reduce, .count = INT64_MAX / 2, .input = values, .output = values},
      {.kind = Kind::all_reduce, .count = 1, .output = values},
      {.kind = Kind::all_gather, .count = 1, .input = values},
      {.kind = Kind::all_to_all, .count = 2, .input = values, .output = values + 1},
      {.kind = Kind::broadcast, .count = 1, .input = values, .output = values, .peer = size()},
      {.kind = Kind::send, .count = 1, .input = values, .peer = 0},
      {.kind = Kind::all_reduce, .dtype = Dtype::int32, .count = 1, .input = values, .output = values, .divisor = 2},
      {.kind = Kind::all_reduce, .count = 1, .input = values, .output = values, .divisor = 0},
  };
  for (const Collective& call : refused) {
    try {
      groups[0]->run(call);
      ADD_FAILURE() << to_string(call);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    }
  }
  expect_no_errors(on_all(groups, [](Group& group) { group.run({}); }));
}

TEST_P(GroupConformance, MeetsForACallWithoutMovingAnything) {
  const Groups groups = make();
  const SharedArray<std::atomic<int>> num_arrived(1);
  expect_no_errors(on_all(groups, [&](Group& group) {
    int round = 0;
    for (const Kind kind :
         {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::all_to_all, Kind::broadcast}) {
      ++num_arrived[0];
      group.run({.kind = kind, .count = 1 << 20, .place = BufferPlace::nowhere});
      EXPECT_GE(num_arrived[0], ++round * size());
      group.run({});
    }
    if (size() == 1 || group.rank() > 1) return;
    group.run({.kind = group.rank() == 0 ? Kind::send : Kind::receive,
               .count = 1 << 20,
               .place = BufferPlace::nowhere,
               .peer = 1 - group.rank()});
  }));
}

// What keeps a call from ending, which may be known a little later.
std::string obstacle_in(Group& group, const Collective& call) {
  for (const auto begin = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - begin < 20s;) {
    if (const auto obstacle = group.obstacle_to(call)) return str(to_string(obstacle->code()), ": ", obstacle->what());
    std::this_thread::sleep_for(1ms);
  }
  return "none";
}

TEST_P(GroupConformance, KnowsOfAFailureWithoutACall) {
  if (size() == 1) return;
  const Groups groups = make();
  expect_no_errors(on_all(groups, [&](Group& group) {
    if (group.rank() == 1) group.abort("the data ran out");
    if (group.rank() > 0) return;
    EXPECT_THAT(obstacle_in(group, {}),
                AllOf(HasSubstr("cancelled"), HasSubstr("rank 1 has given up: the data ran out")));
  }));
}

TEST_P(GroupConformance, KnowsOfALostMemberWithoutEndingWhatCanEnd) {
  if (size() < 3 || std::get<0>(GetParam()).members != MembersAre::threads) return;
  Groups groups = make();
  std::thread leaving([last = std::move(groups.back())]() mutable { last.reset(); });
  groups.pop_back();
  const Collective barrier{.name = "the end"}, from_0{.kind = Kind::receive, .peer = 0};
  EXPECT_THAT(obstacle_in(*groups[1], barrier),
              AllOf(HasSubstr("unavailable"), HasSubstr(str("rank ", size() - 1)), HasSubstr("barrier 'the end'")));
  EXPECT_FALSE(groups[1]->obstacle_to(from_0));
  leaving.join();
  expect_no_errors(on_all(groups, [](Group& group) {
    if (group.rank() == 0) group.run({.kind = Kind::send, .peer = 1});
    if (group.rank() == 1) group.run({.kind = Kind::receive, .peer = 0});
  }));
}

std::string name_of_group(const testing::TestParamInfo<std::tuple<Implementation, int>>& info) {
  return str(std::get<0>(info.param).name, '_', std::get<1>(info.param), "_members");
}
void PrintTo(const Implementation& implementation, std::ostream* out) { *out << implementation.name; }

std::vector<int> sizes() {
#ifdef TUTTI_GROUPS_BY_MPI
  return {num_launched()};
#elif defined(TUTTI_NCCL_OF_PROCESSES)
  return {1, 2, 4};
#else
  return {1, 2, 3, 4, 7, 9};
#endif
}

INSTANTIATE_TEST_SUITE_P(All, GroupConformance,
                         testing::Combine(testing::ValuesIn(implementations()), testing::ValuesIn(sizes())),
                         name_of_group);

}  // namespace
}  // namespace tutti
