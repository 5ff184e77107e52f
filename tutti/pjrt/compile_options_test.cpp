#include "tutti/pjrt/compile_options.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/pjrt/element_type.h"

namespace tutti::pjrt {
namespace {

TEST(CompileOptions, AreAProtocolBuffer) {
  // protoc --encode of executable_build_options {device_ordinal: -1 num_replicas: 2 num_partitions: 1
  // device_assignment {replica_count: 2 computation_count: 1 computation_devices {replica_device_ids: [300, 1]}}}
  const std::string expected(
      "\x1a\x1c\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x02\x28\x01\x4a\x0b\x08\x02\x10\x01\x1a\x05\x0a\x03\xac"
      "\x02"
      "\x01",
      30);
  EXPECT_EQ((CompileOptions{.replicas = 2, .devices = {300, 1}}.serialize()), expected);
}

TEST(CompileOptions, NeedADeviceForEachReplica) {
  EXPECT_EQ(error_of([] { CompileOptions{.replicas = 2, .devices = {0}}.serialize(); }),
            "invalid_argument: a program for 2 replicas on the devices [0]: give one for each");
  EXPECT_EQ(code_of([] { CompileOptions{.replicas = 0}.serialize(); }), ErrorCode::invalid_argument);
}

TEST(ElementType, KnowsItsSize) {
  EXPECT_EQ(bytes_of(ElementType::bfloat16, {3, 5}), 30);
  EXPECT_EQ(bytes_of(ElementType::float64, {}), 8);
  EXPECT_EQ(code_of([] {
              bytes_of(ElementType::int8, {int64_t{1} << 40, int64_t{1} << 40});
            }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([] { to_string(static_cast<ElementType>(16)); }), ErrorCode::unimplemented);
}

}  // namespace
}  // namespace tutti::pjrt
