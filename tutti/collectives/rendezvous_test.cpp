#include "tutti/collectives/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>

#include "tests/support/collected_warnings.h"
#include "tests/support/watchdog.h"
#include "tutti/collectives/brought.h"
#include "tutti/core/error.h"
#include "tutti/device/workers.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Runs function(replica) for every replica as a strategy does, and returns what each threw.
std::vector<std::exception_ptr> run_replicas(Rendezvous& rendezvous, const std::function<void(int)>& function) {
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(rendezvous.num_replicas()));
  rendezvous.reset();
  Workers(rendezvous.num_replicas()).run([&](int replica) {
    try {
      function(replica);
      rendezvous.finish(replica);
    } catch (...) {
      thrown[static_cast<size_t>(replica)] = std::current_exception();
      rendezvous.fail(replica, std::current_exception());
    }
  });
  return thrown;
}

const auto nothing = [](std::span<void* const>) {};

Operation operation(const char* name, std::source_location location = std::source_location::current()) {
  return {.name = name, .location = location};
}

// The code and text of a tutti::Error; a null or other exception fails the test.
std::pair<ErrorCode, std::string> parts_of_error(const std::exception_ptr& exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
  }
  ADD_FAILURE() << "no tutti::Error";
  return {ErrorCode::internal, ""};
}

TEST(Rendezvous, TheActionRunsOnceWithThePayloadsInReplicaOrder) {
  const Watchdog watchdog(60s);
  for (const int num_replicas : {1, 2, 3, 7}) {
    Rendezvous rendezvous(num_replicas);
    int sum = 0;
    int calls = 0;
    const auto thrown = run_replicas(rendezvous, [&](int replica) {
      for (int round = 0; round < 1000; ++round) {
        int mine = replica + round;
        rendezvous.arrive(replica, {.name = "add", .payload = &mine}, [&](std::span<void* const> payloads) {
          ++calls;
          for (size_t i = 0; i < payloads.size(); ++i) {
            const int value = *static_cast<int*>(payloads[i]);
            EXPECT_EQ(value, static_cast<int>(i) + round);
            sum += value;
          }
        });
      }
    });
    EXPECT_THAT(thrown, testing::Each(nullptr));
    EXPECT_EQ(calls, 1000);
    EXPECT_EQ(sum, num_replicas * (999 * 1000 / 2) + 1000 * num_replicas * (num_replicas - 1) / 2);
    EXPECT_EQ(rendezvous.first_failure().exception, nullptr);
  }
}

TEST(Rendezvous, AnExceptionOfTheActionIsThrownByEveryReplicaAndIsNobodysAlone) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(3);
  const auto thrown = run_replicas(rendezvous, [&](int replica) {
    rendezvous.arrive(replica, operation("all_reduce"), [](auto) { throw std::out_of_range("shapes differ"); });
  });
  ASSERT_NE(thrown[0], nullptr);
  EXPECT_THAT(thrown, ElementsAre(thrown[0], thrown[0], thrown[0]));
  EXPECT_THROW(std::rethrow_exception(thrown[0]), std::out_of_range);
  EXPECT_EQ(rendezvous.first_failure().exception, thrown[0]);
  EXPECT_EQ(rendezvous.first_failure().replica, -1);
}

TEST(Rendezvous, AfterAnExceptionOfTheActionTheReplicasMayGoOn) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(3);
  std::atomic<int> met = 0;
  const auto thrown = run_replicas(rendezvous, [&](int replica) {
    EXPECT_THROW(rendezvous.arrive(replica, operation("a"), [](auto) { throw std::out_of_range(""); }),
                 std::out_of_range);
    rendezvous.arrive(replica, operation("b"), [&](auto) { ++met; });
  });
  EXPECT_THAT(thrown, testing::Each(nullptr));
  EXPECT_EQ(met, 1);
}

TEST(Rendezvous, ASkippedOperationNamesBothOperationsAndBothPlaces) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(3);
  const int line = __LINE__;
  const auto thrown = run_replicas(rendezvous, [&](int replica) {
    if (replica != 1) rendezvous.arrive(replica, operation("all_reduce"), nothing);
    rendezvous.arrive(replica, operation("all_gather"), nothing);
  });
  for (const auto& exception : thrown) {
    const auto [code, text] = parts_of_error(exception);
    EXPECT_EQ(code, ErrorCode::failed_precondition);
    EXPECT_EQ(text, "the replicas do not meet: replicas [0, 2] wait in all_reduce (rendezvous_test.cpp:" +
                        std::to_string(line + 2) +
                        "); replicas [1] wait in all_gather (rendezvous_test.cpp:" + std::to_string(line + 3) +
                        "); every replica must make the same collective calls in the same order");
  }
  EXPECT_EQ(rendezvous.first_failure().replica, -1);
}

TEST(Rendezvous, AReplicaThatFinishedEarlyIsNamed) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(3);
  const auto thrown = run_replicas(rendezvous, [&](int replica) {
    for (int i = 0; i < 2 + (replica == 0); ++i) rendezvous.arrive(replica, operation("all_reduce"), nothing);
  });
  EXPECT_THAT(parts_of_error(thrown[0]).second,
              AllOf(HasSubstr("replicas [0] wait in all_reduce (rendezvous_test.cpp:"),
                    HasSubstr("replicas [1, 2] have finished")));
  EXPECT_EQ(thrown[1], nullptr);
  EXPECT_EQ(thrown[2], nullptr);
}

TEST(Rendezvous, OperationsOfDifferentKeysDoNotMeet) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(2);
  const auto thrown = run_replicas(rendezvous, [&](int replica) {
    rendezvous.arrive(replica, {.name = "gradient", .key = 7 + static_cast<uint64_t>(replica)}, nothing);
  });
  EXPECT_THAT(parts_of_error(thrown[0]).second, AllOf(HasSubstr("gradient #7"), HasSubstr("gradient #8")));
  EXPECT_EQ(thrown[0], thrown[1]);
}

TEST(Rendezvous, OperationsWithPayloadsOfDifferentTypesDoNotMeet) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(2);
  const auto thrown = run_replicas(rendezvous, [&](int replica) {
    const uint64_t type = replica == 0 ? type_key<int>() : type_key<double>();
    rendezvous.arrive(replica, {.name = "merge_call", .payload_type = type}, nothing);
  });
  EXPECT_EQ(parts_of_error(thrown[0]).first, ErrorCode::failed_precondition);
  EXPECT_EQ(thrown[0], thrown[1]);
}

TEST(Rendezvous, NamesAreComparedByTheirText) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(2);
  const std::string names[] = {"all_reduce", "all_reduce"};
  const auto thrown = run_replicas(
      rendezvous, [&](int replica) { rendezvous.arrive(replica, operation(names[replica].c_str()), nothing); });
  EXPECT_THAT(thrown, ElementsAre(nullptr, nullptr));
}

TEST(Rendezvous, AFailingReplicaReleasesThoseThatWaitAndThoseThatComeLater) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(3);
  const auto thrown = run_replicas(rendezvous, [&](int replica) {
    if (replica == 1) throw std::runtime_error("disk full");
    if (replica == 2) std::this_thread::sleep_for(20ms);
    rendezvous.arrive(replica, operation("all_reduce"), nothing);
  });
  for (const int replica : {0, 2}) {
    const auto [code, text] = parts_of_error(thrown[static_cast<size_t>(replica)]);
    EXPECT_EQ(code, ErrorCode::cancelled);
    EXPECT_THAT(text, AllOf(HasSubstr("all_reduce (rendezvous_test.cpp:"), HasSubstr("replica 1 failed: disk full")));
  }
  EXPECT_EQ(rendezvous.first_failure().exception, thrown[1]);
  EXPECT_EQ(rendezvous.first_failure().replica, 1);
}

TEST(Rendezvous, ACancelledReplicaThatGoesOnIsCancelledAgain) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(2);
  run_replicas(rendezvous, [&](int replica) {
    if (replica == 0) throw 42;
    for (int i = 0; i < 5; ++i) {
      try {
        rendezvous.arrive(replica, operation("all_reduce"), nothing);
        ADD_FAILURE() << "met nobody";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("no std::exception"));
      }
    }
  });
  EXPECT_THROW(std::rethrow_exception(rendezvous.first_failure().exception), int);
}

TEST(Rendezvous, IsAsNewAfterReset) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(2);
  run_replicas(rendezvous, [&](int replica) {
    if (replica == 0) throw std::runtime_error("");
    rendezvous.arrive(replica, operation("all_reduce"), nothing);
  });
  EXPECT_NE(rendezvous.first_failure().exception, nullptr);
  const auto thrown =
      run_replicas(rendezvous, [&](int replica) { rendezvous.arrive(replica, operation("all_reduce"), nothing); });
  EXPECT_THAT(thrown, ElementsAre(nullptr, nullptr));
  EXPECT_EQ(rendezvous.first_failure().exception, nullptr);
}

TEST(Rendezvous, ASlowReplicaIsNamedInOneWarningPerMeetingAndWaitedFor) {
  const Watchdog watchdog(60s);
  const CollectedWarnings warnings;
  Rendezvous rendezvous(4, {.warn_after = 5ms});
  const auto thrown = run_replicas(rendezvous, [&](int replica) {
    for (int round = 0; round < 2; ++round) {
      if (replica == 3) std::this_thread::sleep_for(60ms);
      rendezvous.arrive(replica, operation("all_reduce"), nothing);
    }
  });
  EXPECT_THAT(thrown, testing::Each(nullptr));
  ASSERT_EQ(warnings.lines().size(), 2U);
  for (const std::string& warning : warnings.lines())
    EXPECT_THAT(warning, AllOf(HasSubstr("0.005 s"), HasSubstr("wait in all_reduce (rendezvous_test.cpp:"),
                               HasSubstr("still compute"), HasSubstr("3] still")));
}

TEST(Rendezvous, ALongActionIsNoReasonForAWarning) {
  const Watchdog watchdog(60s);
  const CollectedWarnings warnings;
  Rendezvous rendezvous(2, {.warn_after = 250ms});
  run_replicas(rendezvous, [&](int replica) {
    rendezvous.arrive(replica, operation("all_reduce"), [](auto) { std::this_thread::sleep_for(400ms); });
  });
  EXPECT_THAT(warnings.lines(), testing::IsEmpty());
}

TEST(Rendezvous, AReplicaDoesOneOperationAtATimeAndNoneAfterItsEnd) {
  const Watchdog watchdog(60s);
  Rendezvous rendezvous(2);
  std::exception_ptr nested;
  run_replicas(rendezvous, [&](int replica) {
    rendezvous.arrive(replica, operation("outer"), [&](auto) {
      try {
        rendezvous.arrive(0, operation("inner"), nothing);
      } catch (...) {
        nested = std::current_exception();
      }
    });
  });
  EXPECT_EQ(parts_of_error(nested).first, ErrorCode::failed_precondition);
  EXPECT_THAT(parts_of_error(nested).second, HasSubstr("replica 0 is in outer"));
  EXPECT_THROW(rendezvous.arrive(0, operation("late"), nothing), Error);
  EXPECT_THROW(rendezvous.arrive(2, operation("nobody"), nothing), Error);
  EXPECT_THROW(rendezvous.arrive(-1, operation("nobody"), nothing), Error);
  EXPECT_THROW(Rendezvous(0), Error);
}

TEST(Rendezvous, ManyMoreReplicasThanCoresMeet) {
  const Watchdog watchdog(120s);
  constexpr int kReplicas = 32;
  Rendezvous rendezvous(kReplicas);
  int rounds = 0;
  const auto thrown = run_replicas(rendezvous, [&](int replica) {
    for (int round = 0; round < 200; ++round) {
      rendezvous.arrive(replica, operation("all_reduce"), [&](auto) { ++rounds; });
      EXPECT_EQ(rounds, round + 1);
    }
  });
  EXPECT_THAT(thrown, testing::Each(nullptr));
}

}  // namespace
}  // namespace tutti
