#include "tutti/tensor/view.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ThreadView, OfGlobalViewInAReplicaTellsWhoseFunctionItIs) {
  const ThreadViewGuard replica({.replica = 2});
  EXPECT_TRUE(in_replica_view());
  const GlobalViewGuard global_view;
  EXPECT_FALSE(in_replica_view());
  EXPECT_TRUE(in_replica_function());
  EXPECT_EQ(ThreadView::current().function_of(), 2);
  const GlobalViewGuard again;
  EXPECT_EQ(ThreadView::current().function_of(), 2);
}

TEST(ThreadView, IsTheFormerOneAfterAGuard) {
  {
    const ThreadViewGuard replica({.replica = 0});
    const ThreadViewGuard outside({});
    EXPECT_FALSE(in_replica_function());
  }
  EXPECT_FALSE(in_replica_function());
  EXPECT_EQ(ThreadView::current().strategy, nullptr);
}

TEST(ThreadView, OfAReplicaIsRefusedWhereGlobalViewIsRequired) {
  require_global_view("gather");
  const ThreadViewGuard replica({.replica = 1});
  EXPECT_THAT(error_of([] { require_global_view("gather", "local() gives a replica its part"); }),
              AllOf(HasSubstr("failed_precondition: gather: called by replica 1"), HasSubstr("local()")));
  const GlobalViewGuard global_view;
  require_global_view("gather");
}

}  // namespace
}  // namespace tutti
