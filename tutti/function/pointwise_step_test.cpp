#include "tutti/function/pointwise_step.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tutti/function/function.h"

namespace tutti {
namespace {

// A step that makes x * 2 + 1, and the tensors of its values.
class DoublingStep {
 public:
  explicit DoublingStep(std::optional<Pointwise> mistake = {}) {
    const auto recorded = function([](const Tensor& x) { return x * 2 + 1; });
    for (int i = 0; i < 2; ++i) recorded(x_);
    const Program& program = recorded.get_concrete_function(x_).graph();
    std::vector<const Program::Call*> calls;
    for (const Program::Call& call : program.calls) calls.push_back(&call);
    CallGroup group = group_calls(program, calls).at(0);
    if (mistake) group.ops[0].what = *mistake;
    for (const Program::Value& value : program.values) {
      const bool is_argument =
          program.buffers[static_cast<size_t>(value.buffer)].kind == Program::Buffer::Kind::argument;
      tensors_.push_back(is_argument ? x_ : at::empty(value.geometry.sizes));
    }
    result_ = tensor(program.results[0].value);
    step_ = pointwise_step(program, group,
                           {[&](int value) { return tensor(value); },
                            [&](const Program::Operand& operand) {
                              return operand.values.empty() ? operand.constant : at::IValue(tensor(operand.values[0]));
                            }});
  }

  void expect_right() {
    x_.normal_();
    step_->run();
    EXPECT_TRUE(at::equal(result_, x_ * 2 + 1));
  }
  bool is_refuted() const { return step_->is_refuted(); }

 private:
  Tensor tensor(int value) const { return tensors_[static_cast<size_t>(value)]; }

  Tensor x_ = at::randn({30, 50}), result_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<JoinedCalls> step_;
};

TEST(PointwiseStep, GivesWhatItsCallsGive) {
  DoublingStep step;
  for (int run = 0; run < 3; ++run) step.expect_right();
  EXPECT_FALSE(step.is_refuted());
}

TEST(PointwiseStep, MakesLibTorchsCallsWhereABitDiffers) {
  DoublingStep step(Pointwise::negate);
  for (int run = 0; run < 3; ++run) step.expect_right();
  EXPECT_TRUE(step.is_refuted());
}

}  // namespace
}  // namespace tutti
