#include "tutti/collectives/reduce_op.h"

#include <gtest/gtest.h>

#include <string>

#include "tutti/core/error.h"

namespace tutti {
namespace {

TEST(ReduceOp, IsReadInAnyCaseAndPrintedInLowerCase) {
  for (const char* text : {"sum", "SUM", "Sum"}) EXPECT_EQ(parse_reduce_op(text), ReduceOp::sum);
  EXPECT_EQ(parse_reduce_op("MEAN"), ReduceOp::mean);
  EXPECT_EQ(to_string(ReduceOp::sum), "sum");
  EXPECT_EQ(to_string(ReduceOp::mean), "mean");
}

TEST(ReduceOp, OtherTextIsRefused) {
  for (const std::string& text : {std::string(), std::string("max"), std::string("sum "), std::string("su"),
                                  std::string("sum\0", 4), std::string(100'000, 's')})
    EXPECT_THROW(parse_reduce_op(text), Error);
}

}  // namespace
}  // namespace tutti
