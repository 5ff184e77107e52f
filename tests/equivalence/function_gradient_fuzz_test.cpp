// Random functions, called in the middle of random graphs, against plain calls: results and gradients, bit for bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <cstdlib>
#include <random>

#include "recorded_and_plain.h"
#include "tutti/function/function.h"

namespace tutti::recorded_and_plain::gradient_fuzz {
namespace {

constexpr int64_t kSide = 4;  // all tensors are matrices of this size
constexpr int kSteps = 6;
constexpr size_t kFunctions = 2, kWeights = 2, kLeaves = 3;

constexpr const char* kNoError = "no error";

struct Statement {
  unsigned op;
  size_t a, b;  // of the tensors that are visible, modulo their number
};
using Statements = std::vector<Statement>;

struct Program {
  std::array<Statements, kFunctions> functions;
  struct Called {
    Statements before;
    size_t function;
    std::array<size_t, 2> arguments;
  };
  std::vector<Called> calls;
  Statements after;
  std::vector<Statement> loss;
  bool twice, by_grad, keep_gradients, needs_change;
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  Program program() {
    Program made;
    for (Statements& function : made.functions) function = statements(2 + below(6));
    for (unsigned n = 1 + below(3); n > 0; --n)
      made.calls.push_back({statements(below(3)), below(kFunctions), {below(100), below(100)}});
    made.after = statements(below(3));
    made.loss = statements(1 + below(3));
    made.twice = below(4) == 0;
    made.by_grad = below(3) == 0;
    made.keep_gradients = below(3) == 0;
    made.needs_change = below(4) == 0;
    return made;
  }

 private:
  unsigned below(size_t n) { return static_cast<unsigned>(random_() % n); }

  Statements statements(unsigned count) {
    Statements all;
    for (unsigned i = 0; i < count; ++i) all.push_back({below(1000), below(100), below(100)});
    return all;
  }

  std::mt19937 random_;
};

Tensor computed(unsigned op, const Tensor& x, const Tensor& y) {
  switch (op % 24) {
    case 0: return x + y;
    case 1: return x * y;
    case 2: return (x - y).tanh();
    case 3: return x.matmul(y) / 4;
    case 4: return x.sigmoid() * y;
    case 5: return x.clamp(-3, 3).exp();
    case 6: return x.relu();
    case 7: return x.t();
    case 8: return torch::cat({x.narrow(0, 0, 2), y.narrow(0, 2, 2)});
    case 9: return x.softmax(1);
    case 10: return x.sum(0, true).expand_as(y) * y;
    case 11: return x.detach() * y;
    case 12: return torch::dropout(x, 0.5, true);
    case 13: return torch::layer_norm(x, {kSide}, y[0], y[1]);
    case 14: return x.cumsum(0).cos();
    case 15: return std::get<0>(x.max(1, true)) + y;
    case 16: return torch::where(x > y, x, y * 0.5);
    case 17: return x.index_select(0, torch::tensor({3, 0, 0, 1})) * 0.5;
    case 18: return x.pow(2) - y.mean();
    case 19: {
      Tensor own = x.clone();
      own.mul_(y).narrow(1, 0, 2).tanh_();
      return own;
    }
    case 20: return x.view({2, 8}).flip(0).reshape({kSide, kSide});
    case 21: {
      const torch::NoGradGuard no_grad;
      return x * y;
    }
    case 22: return torch::linear(x, y, y[2]);
    default: return x.contiguous().view({kSide * kSide}).as_strided({kSide, kSide}, {1, kSide}).sin();
  }
}

// Outside of the functions, tensors that have a graph are written in place, too.
void run(const Statements& statements, List& visible, bool outside = false) {
  for (const Statement& s : statements) {
    if (Tensor written = visible[s.b % visible.size()]; outside && s.a % 4 == 0 && !written.is_leaf()) {
      written.mul_(0.5);
      continue;
    }
    const Tensor &x = visible[s.a % visible.size()], &y = visible[s.b % visible.size()];
    visible.push_back(s.op % 24 == 20 ? computed(s.op, x.contiguous(), y) : computed(s.op, x, y));
  }
}

// Three of the tensors that it sees, its arguments and variables among them.
List body(const Statements& statements, const List& weights, const List& arguments) {
  List visible = arguments;
  visible.insert(visible.end(), weights.begin(), weights.end());
  run(statements, visible);
  return {visible.back(), visible[visible.size() - 2], visible[statements[0].op % visible.size()]};
}

struct Side {
  List weights, leaves;
  std::function<List(size_t function, const List& arguments)> call;
};

Tensor weighted(const Statement& s, const Tensor& x) {
  switch (s.op % 6) {
    case 0: return x.sum();
    case 1: return x.mean();
    case 2: return (x * torch::arange(16.F).view({kSide, kSide})).sum();
    case 3: return x.t().sum(0)[1];
    case 4: return x[2].square().sum();
    default: return (x.select(1, 1) * 3).max();
  }
}

List step(const Program& program, Side& side, int number) {
  torch::manual_seed(number);
  if (program.needs_change)
    for (size_t i = 0; i < 2; ++i) side.leaves[i].set_requires_grad(number % 2 == 0 || i == 1);
  List visible = side.leaves;
  for (const Program::Called& called : program.calls) {
    run(called.before, visible, /*outside=*/true);
    List arguments;
    for (const size_t i : called.arguments) arguments.push_back(visible[visible.size() - 1 - i % visible.size()]);
    for (const Tensor& result : side.call(called.function, arguments)) visible.push_back(result);
  }
  run(program.after, visible, /*outside=*/true);
  visible.push_back(side.weights[0] * 1);
  Tensor loss = side.leaves[2].sum();
  for (const Statement& s : program.loss)
    loss = loss + weighted(s, visible[visible.size() - 1 - s.a % visible.size()]) * 0.5;
  List results = visible;
  List variables;
  for (const List* const all : {&side.weights, &side.leaves})
    for (const Tensor& tensor : *all)
      if (tensor.requires_grad()) variables.push_back(tensor);
  if (program.by_grad) {
    for (const Tensor& found : torch::autograd::grad({loss}, variables, {}, {}, false, /*allow_unused=*/true))
      results.push_back(found.defined() ? found : torch::zeros({}));
    return results;
  }
  loss.backward({}, program.twice);
  if (program.twice) loss.backward();
  for (Tensor variable : variables) {
    Tensor& gradient = variable.mutable_grad();
    results.push_back(gradient.defined() ? gradient.clone() : torch::zeros({}));
    if (!gradient.defined()) continue;
    const torch::NoGradGuard no_grad;
    variable.sub_(gradient.clamp(-1, 1), 0.125);
    if (!program.keep_gradients) gradient.reset();
  }
  return results;
}

std::string text_of(const Statements& statements) {
  std::string text;
  for (const Statement& s : statements)
    text += " " + std::to_string(s.op % 24) + "(" + std::to_string(s.a) + "," + std::to_string(s.b) + ")";
  return text;
}

std::string text_of(const Program& program) {
  std::string text;
  for (const Statements& function : program.functions)
    text += "function:" + text_of(function) + "; returns " + std::to_string(function[0].op) + "\n";
  for (const auto& [before, function, arguments] : program.calls)
    text += "before:" + text_of(before) + "; call " + std::to_string(function) + " of " + std::to_string(arguments[0]) +
            ", " + std::to_string(arguments[1]) + "\n";
  text += "after:" + text_of(program.after) + "; loss:";
  for (const Statement& s : program.loss) text += " " + std::to_string(s.op % 6) + "(" + std::to_string(s.a) + ")";
  return text + (program.twice ? " twice" : "") + (program.by_grad ? " by grad()" : "") +
         (program.keep_gradients ? " kept" : "") + (program.needs_change ? " needs change" : "") + "\n";
}

// What all functions of one node refuse, LibTorch's own too: their backward pass goes on to all arguments, also to
// those whose graph was spoilt and which get no gradient in the end.
bool is_refusal(const std::string& failure) {
  return failure.find("Hint: enable anomaly detection") != std::string::npos ||
         failure.find("This view was created inside a custom Function") != std::string::npos ||
         failure.find("writes in place, while gradients are recorded") != std::string::npos;
}

// How many of the steps went through.
int compare(unsigned seed) {
  const Program program = Generator(seed).program();
  SCOPED_TRACE(text_of(program));
  torch::manual_seed(seed);
  Side plain, recorded;
  for (size_t i = 0; i < kWeights + kLeaves; ++i) {
    const Tensor value = torch::randn({kSide, kSide});
    for (Side* const side : {&plain, &recorded})
      (i < kWeights ? side->weights : side->leaves).push_back(value.clone().requires_grad_());
  }
  plain.call = [&](size_t f, const List& arguments) { return body(program.functions[f], plain.weights, arguments); };
  std::vector<std::function<List(const List&)>> functions;
  for (size_t f = 0; f < kFunctions; ++f)
    functions.emplace_back(
        function([&, f](const List& arguments) { return body(program.functions[f], recorded.weights, arguments); }));
  recorded.call = [&](size_t f, const List& arguments) { return functions[f](arguments); };
  for (int number = 0; number < kSteps; ++number) {
    List wanted, seen;
    const std::string failure = what_of([&] { wanted = step(program, plain, number); });
    const std::string own_failure = what_of([&] { seen = step(program, recorded, number); });
    if (failure == kNoError && is_refusal(own_failure)) return number;
    EXPECT_EQ(own_failure == kNoError, failure == kNoError) << own_failure << "\nand plain\n" << failure;
    expect_same(seen, wanted, "program " + std::to_string(seed) + ", step " + std::to_string(number) + ", value");
    if (testing::Test::HasFailure() || failure != kNoError) return number;
    for (size_t i = 0; i < seen.size(); ++i)
      EXPECT_EQ(seen[i].requires_grad(), wanted[i].requires_grad()) << "program " << seed << ", value " << i;
  }
  return kSteps;
}

TEST(FunctionGradientFuzz, RandomProgramsHavePlainGradients) {
  const char* const wanted = std::getenv("TUTTI_GRADIENT_PROGRAMS");
  const char* const first = std::getenv("TUTTI_GRADIENT_FIRST");
  const unsigned begin = first ? static_cast<unsigned>(std::atoi(first)) : 0;
  const unsigned count = wanted ? static_cast<unsigned>(std::atoi(wanted)) : 150;
  unsigned steps = 0;
  for (unsigned seed = begin; seed < begin + count && !HasFailure(); ++seed)
    steps += static_cast<unsigned>(compare(seed));
  EXPECT_GT(steps, count * kSteps * 3 / 4);
  std::cout << steps << " of " << count * kSteps << " steps went through\n";
}

}  // namespace
}  // namespace tutti::recorded_and_plain::gradient_fuzz
