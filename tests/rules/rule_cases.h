// Cases for the sharding rules: what an op is given, and what its layouts may cost. rules_test.cpp runs them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::rules {

using Tensor = at::Tensor;
using Tensors = std::vector<Tensor>;

inline constexpr uint64_t kSeed = 5;  // that cases which draw give LibTorch's generator

// An operand: its global sizes, and what its elements are.
struct Operand {
  enum class Elements { any, positive, fractions, integers, booleans };

  Operand(std::initializer_list<int64_t> sizes) : sizes(sizes) {}
  Operand(std::vector<int64_t> sizes, Elements elements, int64_t below = 0, bool gradient = true)
      : sizes(std::move(sizes)), elements(elements), below(below), gradient(gradient) {}

  std::vector<int64_t> sizes;
  Elements elements = Elements::any;
  int64_t below = 0;     // integers are in [0, below)
  bool gradient = true;  // of floating point elements
};

inline Operand positive(std::vector<int64_t> sizes) { return {std::move(sizes), Operand::Elements::positive}; }
// Between 0 and 1, both excluded.
inline Operand fractions(std::vector<int64_t> sizes) { return {std::move(sizes), Operand::Elements::fractions}; }
inline Operand integers(std::vector<int64_t> sizes, int64_t below) {
  return {std::move(sizes), Operand::Elements::integers, below};
}
inline Operand booleans(std::vector<int64_t> sizes) { return {std::move(sizes), Operand::Elements::booleans}; }
// Without a gradient.
inline Operand constant(Operand operand) {
  operand.gradient = false;
  return operand;
}

using Function = std::function<Tensors(const Tensors&)>;

// A function with one result.
template <class F>
Function one(F function) {
  return [function](const Tensors& t) -> Tensors { return {function(t)}; };
}

struct RuleCase {
  std::string name;
  // A letter for each axis of each operand and each result: "ik,kj->ij". An axis with a small letter stays sharded, at
  // no cost but the all-reduce of a result (in backward: of a gradient) that lacks the letter; one with a capital
  // letter may be gathered.
  std::string notation;
  std::vector<Operand> operands;
  Function function;
  // Values that are communicated on the way: "r,r" are two that are all-reduced where a letter they lack is sharded,
  // "RC" is one that is gathered.
  std::string forward = {}, backward = {};
  bool first_decides = false;  // the results have the first operand's layout: others may be gathered for it
  size_t max_layouts = 48;     // on one mesh
};

inline void PrintTo(const RuleCase& rule_case, std::ostream* out) { *out << rule_case.notation; }

// One function for each family of ops.
std::vector<RuleCase> loss_cases();
std::vector<RuleCase> matmul_cases();
std::vector<RuleCase> normalization_cases();
std::vector<RuleCase> optimizer_cases();
std::vector<RuleCase> pointwise_cases();
std::vector<RuleCase> pointwise_schema_cases();
std::vector<RuleCase> reduction_cases();
std::vector<RuleCase> attention_cases();
std::vector<RuleCase> convolution_cases();
std::vector<RuleCase> moving_cases();
std::vector<RuleCase> picking_cases();
std::vector<RuleCase> placing_cases();
std::vector<RuleCase> pooling_cases();
std::vector<RuleCase> random_cases();
std::vector<RuleCase> view_cases();

std::vector<RuleCase> all_cases();

}  // namespace tutti::rules
