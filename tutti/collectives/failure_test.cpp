#include "tutti/collectives/failure.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace tutti {
namespace {

std::exception_ptr caught(const Failure& failure) {
  try {
    rethrow(failure);
  } catch (const std::out_of_range&) {
    return std::current_exception();
  }
}

TEST(Failure, IsRethrownUnchangedAndKnowsItsReplica) {
  const Failure failure{.exception = std::make_exception_ptr(std::out_of_range("the user's own")), .replica = 3};
  const std::exception_ptr exception = caught(failure);
  EXPECT_EQ(exception, failure.exception);
  EXPECT_EQ(replica_of(exception), 3);
}

TEST(Failure, OnlyTheLastOneOfThisThreadIsRemembered) {
  const std::exception_ptr first = caught({std::make_exception_ptr(std::out_of_range("a")), 1});
  const std::exception_ptr second = caught({std::make_exception_ptr(std::out_of_range("b")), 2});
  EXPECT_EQ(replica_of(first), -1);
  EXPECT_EQ(replica_of(second), 2);
  std::jthread([&] { EXPECT_EQ(replica_of(second), -1); });
  EXPECT_EQ(replica_of(nullptr), -1);
  EXPECT_EQ(replica_of(std::make_exception_ptr(1)), -1);
}

}  // namespace
}  // namespace tutti
