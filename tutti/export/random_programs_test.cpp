// Functions made up of what functions of real programs do, saved and run beside them.
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/variable_factories.h>
#include <torch/nn/functional/normalization.h>

#include <random>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tutti/export/generalize.h"
#include "tutti/export/runner.h"
#include "tutti/export/same_bits.h"

namespace tutti::saved_model {
namespace {

using at::indexing::Slice;

// Two values of [batch, 4] that the function has made, a class of 0 to 3 for each row, and a number from 1 to 3.
struct Operands {
  Tensor a, b, classes;
  int64_t n;

  int64_t batch() const { return a.size(0); }
  float number() const { return 0.25F * static_cast<float>(n); }
};

using Step = Tensor (*)(const Operands& o);  // gives [batch, 4], and may write to a and b

constexpr Step kSteps[] = {
    [](const Operands& o) { return o.a - o.b * o.n; },
    [](const Operands& o) {
      return o.a * torch::tensor({1.F, -2.F, 0.5F, o.number()});
    },
    [](const Operands& o) {
      return o.a.index_select(1, torch::tensor({o.n, int64_t{0}, int64_t{3}, int64_t{0}}));
    },
    [](const Operands& o) {
      return o.a / torch::tensor({o.batch(), o.n}).sum();
    },
    [](const Operands& o) { return torch::empty_like(o.a).copy_(o.b); },
    [](const Operands& o) {
      const Tensor t = torch::empty({o.batch(), 4});
      t.narrow(1, 0, o.n).fill_(o.number());
      t.slice(1, o.n).copy_(o.a.slice(1, o.n));
      return t;
    },
    [](const Operands& o) {
      const Tensor t = torch::empty({4});
      for (int64_t i = 0; i < 4; ++i) t[i] = o.number() * static_cast<float>(i);
      return o.a + t;
    },
    [](const Operands& o) {
      const Tensor t = at::empty({4});
      for (int64_t i = 0; i < 4; ++i) t.mutable_data_ptr<float>()[i] = o.number();
      return o.a * t;
    },
    [](const Operands& o) {
      const Tensor t = torch::tensor({{1.F, 2.F, 3.F, 4.F}, {4.F, 3.F, 2.F, 1.F}});
      t[0].add_(o.a.mean(0));
      return o.b * t[0] + t[1];
    },
    [](const Operands& o) {
      const Tensor t = torch::tensor({{1.F, 2.F, 3.F, 4.F}, {4.F, 3.F, 2.F, 1.F}});
      const Tensor row = t[o.n % 2];
      return o.b * row + t.sum(0);
    },
    [](const Operands& o) {
      Tensor t = torch::zeros({o.batch(), 6});
      t.index_put_({Slice(), Slice(1, 5)}, o.a);
      t.index({Slice(), 0}) = o.n;
      return t.slice(1, 0, 4);
    },
    [](const Operands& o) {
      Tensor y = o.a.clone();
      y.index_put_({y < 0}, o.number());
      return y;
    },
    [](const Operands& o) { return at::where(o.a > o.b, o.a, o.b * o.n); },
    [](const Operands& o) {
      return o.a.masked_fill(torch::tensor({true, o.n == 2, false, false}), 0.5);
    },
    [](const Operands& o) { return at::one_hot(o.classes, 4).to(at::kFloat) * o.a; },
    [](const Operands& o) { return std::get<0>(o.a.topk(4, 1)) - o.b; },
    [](const Operands& o) {
      return at::cat({o.a, o.b}, 1).slice(1, o.n, o.n + 4);
    },
    [](const Operands& o) {
      return at::cat({o.a, o.b}, 1).chunk(2, 1)[1] + o.a.split(1, 1)[0];
    },
    [](const Operands& o) {
      return at::stack({o.a, o.b}, 1).sum(1);
    },
    [](const Operands& o) {
      return at::einsum("bi,bj->bi", {o.a, o.b.sigmoid()});
    },
    [](const Operands& o) { return o.a.softmax(o.n % 2); },
    [](const Operands& o) { return torch::nn::functional::normalize(o.a); },
    [](const Operands& o) {
      return at::pad(o.a, {1, 1}).slice(1, 0, 4);
    },
    [](const Operands& o) { return o.a.relu_(); },
    [](const Operands& o) { return o.a.add_(o.b, o.n); },
    [](const Operands& o) {
      o.a.data().mul_(o.number());
      return o.a + o.b;
    },
    [](const Operands& o) {
      o.a.slice(1, 0, o.n).neg_();
      return o.b * 2;
    },
    [](const Operands& o) {
      return o.a.reshape({2 * o.batch(), 2}).view_as(o.b);
    },  // a again
    [](const Operands& o) { return torch::arange(o.batch()).unsqueeze(1) * 0.125 + o.a; },
    [](const Operands& o) {
      return torch::full({o.batch(), 1}, o.number()) * o.a;
    },
    [](const Operands& o) { return torch::full_like(o.a, o.n) - torch::ones_like(o.b) * o.b; },
    [](const Operands& o) {
      return torch::zeros({o.batch(), 4}).scatter_(1, o.classes.unsqueeze(1), o.number());
    },
    [](const Operands& o) {
      return torch::zeros({4, 4}).index_add_(0, o.classes, o.a.round()).index_select(0, o.classes);
    },
    [](const Operands& o) { return o.a.mean(0, true).expand_as(o.b) + o.b; },
    [](const Operands& o) { return o.a.gather(1, o.classes.unsqueeze(1)) - std::get<0>(o.b.sort(0)).flip({0}); },
    [](const Operands& o) { return o.a.matmul(o.b.t()).softmax(-1).matmul(o.a); },
    [](const Operands& o) { return (o.a - o.a.mean(1, true)) / (o.a.var(1, true, true) + 1e-5).sqrt(); },
};

// The n-th program is always the same.
class RandomProgram {
 public:
  explicit RandomProgram(uint32_t seed) {
    std::mt19937 random(seed);
    for (size_t count = 2 + random() % 7; choices_.size() < count;)
      choices_.push_back({random() % std::size(kSteps), random(), random(), 1 + static_cast<int64_t>(random() % 3)});
  }

  Tensor operator()(const Tensor& x, const Tensor& classes) const {
    std::vector<Tensor> made = {x.clone(), x.sigmoid()};
    for (const Choice& choice : choices_)
      made.push_back(
          kSteps[choice.step]({made[choice.a % made.size()], made[choice.b % made.size()], classes, choice.number}));
    return at::stack(made);
  }

  std::string text() const {
    std::string steps;
    for (const Choice& choice : choices_) steps += " " + std::to_string(choice.step);
    return steps;
  }

 private:
  struct Choice {
    size_t step;
    uint64_t a, b;
    int64_t number;
  };
  std::vector<Choice> choices_;
};

void expect_same_as_saved(const RandomProgram& program) {
  const std::vector<Spec> inputs = {TensorSpec({.name = "x", .shape = {kUnknown, 4}}),
                                    TensorSpec({.name = "classes", .dtype = at::kLong})};
  const Recording::Function function = [&](const std::vector<Value>& values) {
    return Outputs{{"y", program(values[0], values[1])}};
  };
  const Generalized made = generalize("f", inputs, function, {});
  std::vector<Tensor> variables;
  for (const Recorded::Variable& variable : made.variables) variables.push_back(variable.tensor.clone());
  const Runner runner(made.program, variables, {}, at::kCPU, "a made-up program");
  for (const int64_t batch : {1, 3, 8}) {
    const Tensor x = at::randn({batch, 4}), classes = at::randint(0, 4, {batch}, at::kLong);
    for (const char* call : {"first", "second"})
      EXPECT_TRUE(same_bits(runner.run({x, classes})[0], program(x, classes))) << call << " call, batch " << batch;
  }
}

TEST(RandomPrograms, DoWhenSavedWhatTheyDo) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const RandomProgram program(seed);
    SCOPED_TRACE("program " + std::to_string(seed) + ", steps" + program.text());
    EXPECT_EQ(error_of([&] { expect_same_as_saved(program); }), "no error");
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tutti::saved_model
