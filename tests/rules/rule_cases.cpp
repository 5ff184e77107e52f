#include "rule_cases.h"

namespace tutti::rules {

std::vector<RuleCase> all_cases() {
  std::vector<RuleCase> all;
  for (const auto family : {attention_cases, convolution_cases, loss_cases, matmul_cases, moving_cases,
                            normalization_cases, optimizer_cases, picking_cases, placing_cases, pointwise_cases,
                            pointwise_schema_cases, pooling_cases, random_cases, reduction_cases, view_cases})
    for (RuleCase& c : family()) all.push_back(std::move(c));
  return all;
}

}  // namespace tutti::rules
