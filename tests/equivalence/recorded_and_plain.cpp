#include "recorded_and_plain.h"

#include <gtest/gtest.h>

#include "tutti/function/function.h"

namespace tutti::recorded_and_plain {
namespace {

List copies(const List& tensors) {
  List copied;
  for (const Tensor& tensor : tensors)
    copied.push_back(tensor.detach().clone().set_requires_grad(tensor.requires_grad()));
  return copied;
}

}  // namespace

void expect_same(const List& seen, const List& wanted, const std::string& what) {
  ASSERT_EQ(seen.size(), wanted.size()) << what;
  for (size_t i = 0; i < seen.size(); ++i)
    EXPECT_TRUE(same_bits(seen[i], wanted[i])) << what << ' ' << i << ": " << seen[i] << "\nand plain\n" << wanted[i];
}

void compare(const List& state, const List& arguments, unsigned pattern, const Step& step) {
  List plain_state = copies(state), own_state = copies(state);
  const auto recorded = function([&](const List& given) { return step(own_state, given); }, {.name = "step"});
  for (int i = 0; i < kCalls; ++i) {
    List given{torch::tensor((pattern >> i & 1U) != 0)};
    for (const Tensor& argument : arguments)
      given.push_back(argument.is_floating_point() ? argument + 0.25 * i : argument.clone());
    List plain_given = copies(given);
    torch::manual_seed(7 + i);
    const List wanted = step(plain_state, plain_given);
    const Tensor next_plain = torch::rand({3});
    torch::manual_seed(7 + i);
    const List seen = recorded(given);
    const Tensor next = torch::rand({3});
    const std::string when = "call " + std::to_string(i) + ", ";
    expect_same(seen, wanted, when + "result");
    expect_same(own_state, plain_state, when + "state");
    expect_same(given, plain_given, when + "argument");
    expect_same({next}, {next_plain}, when + "random numbers after it");
  }
  EXPECT_EQ(recorded.tracing_count(), 2);
}

void compare_all(const List& state, const List& arguments, const Step& step) {
  for (const unsigned pattern : {0b101100110U, 0b011001001U, 0b110011001U, 0b001100111U, 0b111111111U, 0U})
    compare(state, arguments, pattern, step);
}

}  // namespace tutti::recorded_and_plain
