#include "tutti/export/pt2/size_guard.h"

#include <gtest/gtest.h>

#include <vector>

#include "tutti/core/error.h"
#include "tutti/export/pt2/size_arithmetic.h"

namespace tutti::saved_model::pt2 {
namespace {

// With x of sizes 6 and 4.
bool holds(const std::string& text) {
  const auto number = [](const std::string& input, int64_t axis) {
    EXPECT_TRUE(input == "x" || input == "args_0") << input;
    return static_cast<int>(axis);
  };
  return SizeGuard(text, number, "the program").holds([](int axis) { return axis == 0 ? 6 : 4; });
}

TEST(SizeGuard, IsWhatPythonSays) {
  EXPECT_TRUE(holds("L['x'].size()[0] > 5"));
  EXPECT_FALSE(holds("L['x'].size()[0] > 6"));
  EXPECT_TRUE(holds("((L['x'].size()[0]*L['x'].size()[1]) % (2*L['x'].size()[0])) == 0"));
  EXPECT_TRUE(holds("L['args'][0].size()[1] + 2 == L['x'].size()[0]"));
  EXPECT_TRUE(holds("-7 // 2 == -4 and -7 % 2 == 1 and 7 // -2 == -4 and 7 % -2 == -1"));
  EXPECT_TRUE(holds("1 - 2 - 3 == -4 and 2 + 3*4 == 14 and 2*(3 + 4) == 14"));
  EXPECT_TRUE(holds("1 > 2 or not (1 > 2)"));
  EXPECT_FALSE(holds("not 2 > 1"));
  EXPECT_FALSE(holds("L['x'].size()[0] // (L['x'].size()[1] - 4) == 0")) << "it divides by zero";
  EXPECT_FALSE(holds("9223372036854775807 + 1 > 0")) << "it leaves int64";
}

TEST(SizeGuard, RefusesAnythingElse) {
  for (const std::string text : {"", "1 <", "L['x'].size()", "L['x'].dtype == 1", "__import__('os')", "2**3 == 8",
                                 "1 < 2 < 3", "(1 == 1", "1 == 1)", "99999999999999999999 > 1"})
    EXPECT_THROW(holds(text), Error) << text;
  EXPECT_THROW(holds(std::string(5000, '(')), Error);
  EXPECT_THROW(holds(std::string(5000, '-') + '1'), Error);
  EXPECT_THROW(holds(std::string(100'000, '1')), Error);
}

TEST(SizeArithmetic, KnowsSymbols) {
  EXPECT_EQ(symbol_of("Symbol('s17', positive=True, integer=True)"), "s17");
  EXPECT_EQ(symbol_of("Symbol('s17')"), "s17");
  for (const char* other :
       {"Mul(Integer(2), Symbol('s0'))", "Symbol('s0') + Symbol('s1')", "Symbol('')", "Symbol('s0", "s0"})
    EXPECT_FALSE(symbol_of(other)) << other;
}

TEST(SizeArithmetic, AddsAndMultiplies) {
  const Integer a{.terms = {{1, {0}}}}, b{.constant = 3, .terms = {{2, {1}}}};
  const std::vector<int64_t> sizes = {5, 7};
  EXPECT_EQ(value_of(computed("_operator.add", a, b).value(), sizes), 5 + 17);
  EXPECT_EQ(value_of(computed("_operator.sub", a, b).value(), sizes), 5 - 17);
  EXPECT_EQ(value_of(computed("_operator.mul", a, b).value(), sizes), 5 * 17);
  EXPECT_EQ(computed("_operator.sub", a, a), Integer{});
  const Integer product = computed("_operator.mul", a, b).value(), large{.constant = INT64_MAX};
  EXPECT_FALSE(computed("_operator.mul", product, a)) << "of three sizes";
  EXPECT_FALSE(computed("_operator.add", large, large));
  EXPECT_FALSE(computed("_operator.floordiv", a, b));
}

}  // namespace
}  // namespace tutti::saved_model::pt2
