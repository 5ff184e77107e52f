#include "tutti/function/joined_calls.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tutti/function/function.h"

namespace tutti {
namespace {

// b = a + 1 and c = a * b for a = 2 * x, of which the first group's joined form does not write a.
class TwoGroups {
 public:
  // `factor`: what the second group's joined form multiplies its result by.
  explicit TwoGroups(double factor) {
    const auto recorded = function([](const Tensor& x) {
      const Tensor a = at::mul(x, 2), b = at::add(a, 1);
      return std::tuple(b, at::mul(a, b));
    });
    for (int i = 0; i < 2; ++i) recorded(x_);
    const Program& program = recorded.get_concrete_function(x_).graph();
    for (const Program::Value& value : program.values)
      tensors_.push_back(program.buffers[static_cast<size_t>(value.buffer)].kind == Program::Buffer::Kind::argument
                             ? x_
                             : at::empty(value.geometry.sizes));
    const auto tensor = [&](int value) { return tensors_[static_cast<size_t>(value)]; };
    const auto argument = [&](const Program::Operand& operand) {
      return operand.values.empty() ? operand.constant : at::IValue(tensor(operand.values[0]));
    };
    const JoinedCalls::Memory memory{tensor, argument};
    const auto& calls = program.calls;
    const Tensor b = tensor(program.results[0].value);
    result_ = tensor(program.results[1].value);
    const auto proof = std::make_shared<JoinedProof>();
    first_ = std::make_unique<JoinedCalls>(
        program, std::vector{&calls[0], &calls[1]}, memory, std::vector{b}, [this, b] { b.copy_(x_ * 2 + 1); }, proof);
    second_ = std::make_unique<JoinedCalls>(
        program, std::vector{&calls[2]}, memory, std::vector{result_},
        [this, b, factor] { result_.copy_(x_ * 2 * b * factor); }, proof);
  }

  void run_first() {
    x_.normal_();
    first_->run();
  }
  void expect_right() {
    run_first();
    second_->run();
    EXPECT_TRUE(at::equal(result_, x_ * 2 * (x_ * 2 + 1)));
  }
  bool is_refuted() const { return first_->is_refuted(); }

 private:
  Tensor x_ = at::randn({30, 50}), result_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<JoinedCalls> first_, second_;
};

TEST(JoinedCalls, GiveWhatTheirCallsGive) {
  TwoGroups groups(1);
  for (int run = 0; run < 3; ++run) groups.expect_right();
  EXPECT_FALSE(groups.is_refuted());
}

TEST(JoinedCalls, WhereOneIsRefutedTheOthersMakeAllThatItReads) {
  TwoGroups groups(2);
  for (int run = 0; run < 3; ++run) groups.expect_right();
  EXPECT_TRUE(groups.is_refuted());
}

TEST(JoinedCalls, UntilAllAreProvenEachMakesAllItsCallsResults) {
  TwoGroups groups(2);
  for (int run = 0; run < 3; ++run) groups.run_first();  // as where an error comes between them
  for (int run = 0; run < 3; ++run) groups.expect_right();
}

}  // namespace
}  // namespace tutti
