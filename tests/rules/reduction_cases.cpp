#include "rule_cases.h"

namespace tutti::rules {

std::vector<RuleCase> reduction_cases() {
  return {
      {.name = "sum",
       .notation = "ij->i",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].sum(1)}; }},
      {.name = "mean_of_all",
       .notation = "ij->",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].mean()}; }},
      {.name = "amax",
       .notation = "ij->j",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].amax(0)}; },
       .backward = "j"},
      {.name = "prod_of_all",
       .notation = "ij->",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].prod()}; },
       .backward = "IJ"},
      {.name = "any",
       .notation = "ij->i",
       .operands = {booleans({7, 5})},
       .function = [](const Tensors& t) -> Tensors { return {t[0].any(1)}; }},
  };
}

}  // namespace tutti::rules
