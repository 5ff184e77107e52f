#include "rule_cases.h"

namespace tutti::rules {

std::vector<RuleCase> pointwise_cases() {
  return {
      {.name = "add",
       .notation = "ij,ij->ij",
       .operands = {{7, 5}, {7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0] + t[1]}; }},
      {.name = "mul_broadcast",
       .notation = "ij,j->ij",
       .operands = {{7, 5}, {5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0] * t[1]}; }},
      {.name = "exp",
       .notation = "ij->ij",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].exp()}; }},
  };
}

}  // namespace tutti::rules
