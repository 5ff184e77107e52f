// Random programs of branches and loops in one another, which write in place to whatever they see, against plain C++,
// bit for bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <random>
#include <sstream>

#include "recorded_and_plain.h"
#include "tutti/function/control_flow.h"
#include "tutti/function/function.h"
#include "tutti/function/host_call.h"

namespace tutti::recorded_and_plain {
namespace {

constexpr int64_t kLength = 4;
constexpr int kCallsOfAProgram = 6;

struct Statement {
  enum class Kind { make, write, write_view, draw, host, gradient, cond, loop };
  Kind kind;
  unsigned op = 0;
  size_t a = 0, b = 0;  // of the tensors that are visible, modulo their number
  double limit = 0;
  std::vector<Statement> first = {}, second = {};
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::vector<Statement> statements(int depth) {
    std::vector<Statement> all;
    for (int64_t n = 2 + below(4); n > 0; --n) all.push_back(statement(depth));
    return all;
  }

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }

  Statement statement(int depth) {
    using Kind = Statement::Kind;
    constexpr std::array kSimple = {Kind::make,       Kind::make, Kind::write, Kind::write,
                                    Kind::write_view, Kind::draw, Kind::host,  Kind::gradient};
    Statement made{.kind = kSimple[below(kSimple.size())],
                   .op = below(100),
                   .a = below(100),
                   .b = below(100),
                   .limit = 0.1 * (static_cast<double>(below(40)) - 20)};
    if (depth == 0 || below(3) != 0) return made;
    made.kind = below(3) == 0 ? Kind::loop : Kind::cond;
    made.first = statements(depth - 1);
    if (made.kind == Kind::cond) made.second = statements(depth - 1);
    return made;
  }

  std::mt19937 random_;
};

// What the statements of a program see.
struct Machine {
  List visible;   // captured tensors, arguments, what was made
  Tensor weight;  // a variable
  int64_t* host_calls;

  Tensor& at(size_t i) { return visible[i % visible.size()]; }

  static Tensor computed(unsigned op, const Tensor& x, const Tensor& y) {
    switch (op % 6) {
      case 0: return (x + y).sin();
      case 1: return x * y.tanh();
      case 2: return (x - y).relu() - 0.5;
      case 3: return x.flip(0).cumsum(0).tanh();
      case 4: return torch::where(x > y, x, y.neg());
      default: return x.narrow(0, 1, 3).contiguous().sum() * y.cos();
    }
  }

  static void write(unsigned op, Tensor x, const Tensor& y) {
    switch (op % 5) {
      case 0: x.add_(y.tanh()); break;
      case 1: x.mul_(0.5).sub_(y.sin()); break;
      case 2: x.copy_(y.flip(0)); break;
      case 3: x.neg_(); break;
      default: x.clamp_(-2, 2).addcmul_(y.cos(), y.sin()); break;
    }
  }

  void run(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) run(statement);
  }

  void run(const Statement& s) {
    using Kind = Statement::Kind;
    switch (s.kind) {
      case Kind::make: visible.push_back(computed(s.op, at(s.a), at(s.b))); break;
      case Kind::write: write(s.op, at(s.a), at(s.b).clone()); break;
      case Kind::write_view: write(s.op, at(s.a).slice(0, s.op % 2, kLength, 2), at(s.b).slice(0, 0, 2).clone()); break;
      case Kind::draw:
        s.op % 2 ? at(s.a).uniform_(-1, 1) : (visible.push_back(torch::randn({kLength})), Tensor());
        break;
      case Kind::host: call_host(s); break;
      case Kind::gradient: descend(s); break;
      case Kind::cond: branch(s); break;
      case Kind::loop: repeat(s); break;
    }
  }

  void call_host(const Statement& s) {
    const auto f = [calls = host_calls](const Tensor& x) {
      ++*calls;
      return torch::full({kLength}, static_cast<double>(*calls % 5)) + x[0].item<float>() / 4;
    };
    visible.push_back(host_call(f, {.shape = {kLength}}, at(s.a)));
  }

  void descend(const Statement& s) {
    const at::AutoGradMode with_gradients(true);
    const Tensor loss = (weight * at(s.a).detach()).sin().sum();
    const Tensor gradient = torch::autograd::grad({loss}, {weight})[0];
    const torch::NoGradGuard no_grad;
    if (s.op % 2) weight.sub_(gradient, 0.1);
    visible.push_back(gradient);
  }

  // A branch sees what it makes, others do not.
  Tensor in_branch(const std::vector<Statement>& statements, size_t result) {
    const size_t before = visible.size();
    run(statements);
    Tensor made = at(result);
    visible.resize(before);
    return made;
  }

  void branch(const Statement& s) {
    const Tensor predicate = at(s.a).sum() > s.limit;
    visible.push_back(cond(
        predicate, [&] { return in_branch(s.first, s.b); }, [&] { return in_branch(s.second, s.b + s.op); }));
  }

  // Of none to three iterations, as the tensor says; the body sees its state and may write to it.
  void repeat(const Statement& s) {
    const Tensor n = at(s.a).abs().sum().remainder(4).floor();
    const auto [i, x] =
        while_loop([&](const Tensor& i, const Tensor& x) { return (i < n).logical_and(x.sum() < s.limit + 3); },
                   [&](const Tensor& i, const Tensor& x) {
                     visible.push_back(x);
                     Tensor next = in_branch(s.first, s.b);
                     visible.pop_back();
                     return std::tuple(i + 1, next);
                   },
                   std::tuple(torch::zeros({}), at(s.b)));
    visible.push_back(x);
  }
};

struct World {
  List captured;
  Tensor weight;
  int64_t host_calls = 0;

  explicit World(unsigned seed) {
    torch::manual_seed(seed);
    for (int i = 0; i < 2; ++i) captured.push_back(torch::randn({kLength}));
    weight = torch::randn({kLength}).set_requires_grad(true);
  }

  List run(const std::vector<Statement>& program, const List& arguments) {
    const torch::NoGradGuard no_grad;
    Machine machine{captured, weight, &host_calls};
    machine.visible.insert(machine.visible.end(), arguments.begin(), arguments.end());
    machine.run(program);
    return {machine.visible.begin() + static_cast<std::ptrdiff_t>(captured.size() + arguments.size()),
            machine.visible.end()};
  }

  List seen(const List& results, const List& arguments) const {
    List all = results;
    all.insert(all.end(), captured.begin(), captured.end());
    all.insert(all.end(), arguments.begin(), arguments.end());
    all.push_back(weight.detach());
    all.push_back(torch::tensor(host_calls));
    all.push_back(torch::rand({2}));
    return all;
  }
};

// Whether both give the same; else the first difference.
std::string difference_of(unsigned seed) {
  const std::vector<Statement> program = Generator(seed).statements(3);
  World plain(seed), own(seed);
  const auto recorded = function([&](const List& arguments) { return own.run(program, arguments); });
  for (int call = 0; call < kCallsOfAProgram; ++call) {
    torch::manual_seed(seed + 100 + call);
    const List arguments = {torch::randn({kLength}) * 2, torch::randn({kLength})};
    List plain_arguments = {arguments[0].clone(), arguments[1].clone()};
    torch::manual_seed(call);
    const List wanted = plain.seen(plain.run(program, plain_arguments), plain_arguments);
    torch::manual_seed(call);
    const List results = recorded(arguments);
    const List got = own.seen(results, arguments);
    if (got.size() != wanted.size()) return "another number of results";
    for (size_t i = 0; i < got.size(); ++i)
      if (!same_bits(got[i], wanted[i])) {
        std::ostringstream text;
        text << "call " << call << ", tensor " << i << " of " << got.size() << ": " << got[i] << " and plain "
             << wanted[i];
        return text.str();
      }
  }
  return recorded.tracing_count() == 2 ? "" : "recorded more than twice";
}

TEST(ControlFlowFuzz, RandomProgramsGiveTheBitsOfPlainCode) {
  const char* const asked = std::getenv("TUTTI_CONTROL_FLOW_PROGRAMS");
  const unsigned num_programs = asked ? static_cast<unsigned>(std::atoi(asked)) : 150;
  for (unsigned seed = 0; seed < num_programs; ++seed) {
    std::string text;
    try {
      text = difference_of(seed);
    } catch (const std::exception& error) {
      text = error.what();
    }
    EXPECT_EQ(text, "") << "program " << seed;
  }
}

}  // namespace
}  // namespace tutti::recorded_and_plain
