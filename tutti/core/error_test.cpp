#include "tutti/core/error.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Error, CarriesCodeMessageAndPlace) {
  try {
    throw Error(ErrorCode::data_loss, "block 3: stored CRC differs");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::data_loss);
    EXPECT_STREQ(error.what(), "block 3: stored CRC differs");
    EXPECT_EQ(to_string(error.location()).rfind("error_test.cpp:", 0), 0U);
  }
}

TEST(Error, CodesHaveTensorFlowsNames) {
  EXPECT_EQ(to_string(ErrorCode::failed_precondition), "failed_precondition");
  EXPECT_EQ(to_string(ErrorCode::unavailable), "unavailable");
}

}  // namespace
}  // namespace tutti
