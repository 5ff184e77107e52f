#include "tutti/data/graph/call_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace tutti::data::graph {
namespace {

TEST(CallText, ShowsEachArgument) {
  const std::vector<std::vector<int64_t>> shapes{{2, -1}, {}};
  EXPECT_EQ(call_text("op", int64_t{2}, true, -0.5, "a\"b", shapes), "op(2,1,-0.5,\"a\\\"b\",[[2,-1],[]])");
  EXPECT_EQ(call_text("op", std::vector<double>{0.1, 1e300}), "op([0.1,1e+300])");
}

TEST(CallText, DiffersWhereAnArgumentDoes) {
  EXPECT_NE(call_text("op", 0.1), call_text("op", std::nextafter(0.1, 1.0)));
  EXPECT_NE(call_text("op", 0.0), call_text("op", -0.0));
  EXPECT_NE(call_text("op", "a\",\"b"), call_text("op", "a", "b"));
  EXPECT_NE(call_text("op", std::vector<std::string>{"a,b"}), call_text("op", std::vector<std::string>{"a", "b"}));
}

TEST(CallText, LongOnesAreAbridgedAndStillDiffer) {
  const std::string many(10'000, 'x');
  EXPECT_LT(abridged(many).size(), 500U);
  EXPECT_NE(abridged(many), abridged(many.substr(1) + 'y'));
  EXPECT_NE(abridged(many), abridged(many + 'x'));
  EXPECT_EQ(abridged("short"), "short");
}

}  // namespace
}  // namespace tutti::data::graph
