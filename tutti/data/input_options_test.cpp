#include "tutti/data/input_options.h"

#include <gmock/gmock.h>

#include "tests/support/error_of.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

std::string checked(const InputOptions& options, bool per_replica = true) {
  return error_of([&] { check_input_options("a call", options, per_replica); });
}

TEST(InputOptions, AllowWhatTensorFlowDoes) {
  EXPECT_EQ(checked({}), "no error");
  EXPECT_EQ(checked({.fetch_to_device = false, .per_replica_buffer_size = 3}, false), "no error");
  EXPECT_EQ(checked({.replication_mode = InputReplicationMode::per_replica}), "no error");
  EXPECT_EQ(checked({.fetch_to_device = false,
                     .replication_mode = InputReplicationMode::per_replica,
                     .place_dataset_on_device = true}),
            "no error");
}

TEST(InputOptions, RefuseWhatTensorFlowDoes) {
  EXPECT_THAT(checked({.replication_mode = InputReplicationMode::per_replica}, false),
              HasSubstr("unimplemented: a call"));
  EXPECT_THAT(checked({.fetch_to_device = false, .place_dataset_on_device = true}),
              HasSubstr("invalid_argument: a call"));
  EXPECT_THAT(checked({.replication_mode = InputReplicationMode::per_replica, .place_dataset_on_device = true}),
              HasSubstr("invalid_argument: a call"));
  EXPECT_THAT(checked({.per_replica_buffer_size = 0}),
              HasSubstr("invalid_argument: a call: per_replica_buffer_size 0"));
}

}  // namespace
}  // namespace tutti::data
