#include "tutti/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string message_of(std::string_view text) {
  try {
    Device::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << '"' << text << "\" was accepted";
  return "";
}

TEST(Device, EverySpellingOfADevicePrintsTheCanonicalOne) {
  for (const char* text : {"GPU:1", "gpu:1", "Gpu:1", "/GPU:1", "/gpu:1", "/device:GPU:1", "device:gpu:1"})
    EXPECT_EQ(to_string(Device(text)), "/device:GPU:1") << text;
  for (const char* text : {"CPU", "/cpu", "/device:CPU", "CPU:0", "CPU:00"})
    EXPECT_EQ(to_string(Device(text)), "/device:CPU:0") << text;
  EXPECT_EQ(to_string(Device("TPU:7")), "/device:TPU:7");
}

TEST(Device, PartsComeInAnyOrder) {
  const std::string canonical = "/job:worker/replica:0/task:1/device:GPU:2";
  EXPECT_EQ(to_string(Device(canonical)), canonical);
  EXPECT_EQ(to_string(Device("job:worker/replica:0/task:1/gpu:2")), canonical);
  EXPECT_EQ(to_string(Device("/GPU:2/task:1/job:worker/replica:0")), canonical);
  EXPECT_EQ(to_string(Device("/job:ps/CPU:0")), "/job:ps/device:CPU:0");
  EXPECT_EQ(to_string(Device("/task:3/CPU:1")), "/task:3/device:CPU:1");
}

TEST(Device, IsComparedByValue) {
  EXPECT_EQ(Device("gpu:3"), Device(DeviceType::gpu, 3));
  EXPECT_NE(Device("GPU:3"), Device("CPU:3"));
  EXPECT_NE(Device("/task:0/CPU:0"), Device("CPU:0"));
  EXPECT_EQ(Device(), Device("CPU:0"));
}

TEST(Device, TextConvertsInLists) {
  const std::vector<Device> devices = {"GPU:0", "GPU:1"};
  EXPECT_EQ(str_list(devices), "[/device:GPU:0, /device:GPU:1]");
  const std::vector<Device> one = {"CPU:5"};
  EXPECT_EQ(one.front().index, 5);
}

TEST(Device, BadTextIsShownWithItsPlaceAndRightForms) {
  EXPECT_EQ(message_of("/gpu:x"),
            "Device: \"/gpu:x\" has no number (at character 5); right forms are \"GPU:0\", \"/CPU:3\", "
            "\"/job:worker/replica:0/task:1/device:GPU:2\"");
  EXPECT_THAT(message_of("XPU:0"), AllOf(HasSubstr("unknown device type"), HasSubstr("at character 0")));
  EXPECT_THAT(message_of("/job:worker/task:1"), HasSubstr("has no device type"));
  EXPECT_THAT(message_of("/device:GPU:1/GPU:2"), AllOf(HasSubstr("device twice"), HasSubstr("at character 14")));
  EXPECT_THAT(message_of("/job:a/job:b/CPU:0"), HasSubstr("job twice"));
  EXPECT_THAT(message_of("/task:1/task:1/CPU:0"), HasSubstr("twice"));
  EXPECT_THAT(message_of("/job:/CPU:0"), HasSubstr("no job name"));
  EXPECT_THAT(message_of("/job:1a/CPU:0"), HasSubstr("no job name"));
  EXPECT_THAT(message_of("/job/CPU:0"), HasSubstr("lacks a ':'"));
  EXPECT_THAT(message_of("GPU:2147483648"), HasSubstr("too large"));
  EXPECT_THAT(message_of("GPU:99999999999999999999"), HasSubstr("too large"));
}

TEST(Device, EmptyAndStrayPartsAreErrors) {
  for (const char* text : {"", "/", "//GPU:0", "GPU:0/", "/job:a//CPU:0", ":", "GPU:"})
    EXPECT_THAT(message_of(text), HasSubstr("right forms")) << text;
  for (const char* text : {"GPU:-1", "GPU:+1", "GPU:*", "GPU: 0", " GPU:0", "GPU:0 ", "GPU:0:1", "GPU:0x1", "cuda:0"})
    EXPECT_THAT(message_of(text), HasSubstr("right forms")) << text;
}

TEST(Device, LongAndUnprintableTextIsCutAndMasked) {
  const std::string message = message_of("/job:" + std::string(100'000, 'a') + "/CPU:0");
  EXPECT_LT(message.size(), 300U);
  EXPECT_THAT(message, HasSubstr("has 100011 characters"));
  EXPECT_THAT(message_of("G\nU\x80:0"), HasSubstr("\"G?U?:0\""));
  EXPECT_THAT(message_of(std::string_view("GPU:0\0", 6)), HasSubstr("\"GPU:0?\""));
}

}  // namespace
}  // namespace tutti
