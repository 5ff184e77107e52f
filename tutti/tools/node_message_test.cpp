#include "tutti/tools/node_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/core/bytes.h"

namespace tutti::tools {
namespace {

using testing::HasSubstr;

TEST(NodeMessages, AreReadAsTheyWereWritten) {
  const NodeReport report{.worker = 5, .exit_code = 137, .how = "died with signal 9 (Killed)", .wants_verdict = true};
  EXPECT_EQ(decode_node_report(encode(report)), report);
  const NodeOrder order{.worker = 5,
                        .verdict = Verdict{.kind = Verdict::Kind::starts_again, .why = "so", .attempt = 2}};
  EXPECT_EQ(decode_node_order(encode(order)), order);
  EXPECT_EQ(decode_node_order(encode(NodeOrder{.worker = 1})), NodeOrder{.worker = 1});
}

TEST(NodeMessages, AreRefusedWhereTheyAreNone) {
  const auto numbers = [](std::initializer_list<int64_t> list) {
    ByteWriter writer;
    for (const int64_t number : list) writer.number(number);
    return writer.bytes();
  };
  for (const auto& bytes : {numbers({}), numbers({-1, 0, 0, 0}), numbers({0, 256, 0, 0}), numbers({0, 0, 9, 0}),
                            numbers({0, 0, 0, 2}), numbers({0, 0, 0, 0, 0})})
    EXPECT_THAT(error_of([&] { decode_node_report(bytes); }), HasSubstr("data_loss"));
  for (const auto& bytes :
       {numbers({0}), numbers({-1, 0, 0, 0}), numbers({0, 3, 0, 0}), numbers({0, -1, 0, 0}), numbers({0, 0, 0, -1})})
    EXPECT_THAT(error_of([&] { decode_node_order(bytes); }), HasSubstr("data_loss"));
}

}  // namespace
}  // namespace tutti::tools
