#include "rule_cases.h"

// In every layout the numbers are those of one device.
namespace tutti::rules {
namespace {

RuleCase drawn(std::string name, Operand operand, std::function<Tensor(const Tensor&)> function) {
  return {.name = std::move(name),
          .notation = "ij->ij",
          .operands = {std::move(operand)},
          .function = [=](const Tensors& t) {
            torch::manual_seed(kSeed);
            const Tensor first = function(t[0]);
            return Tensors{first + function(t[0])};  // that the second draws goes on where the first ended
          }};
}

RuleCase filled(std::string name, std::function<void(Tensor&)> fill) {
  return drawn(std::move(name), constant({7, 5}), [=](const Tensor& x) {
    Tensor target = torch::empty_like(x);
    fill(target);
    return target;
  });
}

}  // namespace

std::vector<RuleCase> random_cases() {
  return {
      filled("normal_in_place", [](Tensor& x) { x.normal_(1, 2); }),
      filled("uniform_in_place", [](Tensor& x) { x.uniform_(1, 2); }),
      filled("bernoulli_in_place", [](Tensor& x) { x.bernoulli_(0.3); }),
      filled("exponential_in_place", [](Tensor& x) { x.exponential_(2); }),
      filled("random_in_place", [](Tensor& x) { x.random_(0, 9); }),
      filled("geometric_in_place", [](Tensor& x) { x.geometric_(0.3); }),
      filled("cauchy_in_place", [](Tensor& x) { x.cauchy_(); }),
      filled("log_normal_in_place", [](Tensor& x) { x.log_normal_(); }),
      drawn("rand_like", constant({7, 5}), [](const Tensor& x) { return torch::rand_like(x); }),
      drawn("rand_like_of_transposed", constant({7, 5}), [](const Tensor& x) { return torch::rand_like(x.t()).t(); }),
      drawn("randn_like", constant({7, 5}), [](const Tensor& x) { return torch::randn_like(x); }),
      drawn("randint_like", constant({7, 5}), [](const Tensor& x) { return torch::randint_like(x, 3, 9); }),
      drawn("dropout", {7, 5}, [](const Tensor& x) { return torch::dropout(x, 0.4, true); }),
      drawn("alpha_dropout", {7, 5}, [](const Tensor& x) { return torch::alpha_dropout(x, 0.4, true); }),
      drawn("feature_dropout", {7, 5},
            [](const Tensor& x) { return torch::feature_dropout(x.unsqueeze(-1), 0.4, true).squeeze(-1); }),
      drawn("native_dropout", {7, 5}, [](const Tensor& x) { return std::get<0>(torch::native_dropout(x, 0.4, true)); }),
      drawn("bernoulli_of_probabilities", constant(fractions({7, 5})),
            [](const Tensor& x) { return torch::bernoulli(x); }),
      drawn("bernoulli_of_a_probability", constant({7, 5}), [](const Tensor& x) { return torch::bernoulli(x, 0.3); }),
      drawn("normal_of_means", constant({7, 5}), [](const Tensor& x) { return at::normal(x, 0.5); }),
      drawn("normal_of_deviations", constant(positive({7, 5})), [](const Tensor& x) { return at::normal(0.5, x); }),
      drawn("normal_of_both", constant(positive({7, 5})), [](const Tensor& x) { return at::normal(x, x); }),
      drawn("gumbel_softmax_over_rows", {7, 5},
            [](const Tensor& x) {
              const Tensor noise = -torch::empty_like(x).exponential_().log();
              return x + noise;
            }),
  };
}

}  // namespace tutti::rules
