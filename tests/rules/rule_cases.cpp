#include "rule_cases.h"

namespace tutti::rules {

std::vector<RuleCase> all_cases() {
  std::vector<RuleCase> all;
  for (const auto family : {loss_cases, matmul_cases, normalization_cases, optimizer_cases, pointwise_cases,
                            pointwise_schema_cases, reduction_cases})
    for (RuleCase& c : family()) all.push_back(std::move(c));
  return all;
}

}  // namespace tutti::rules
