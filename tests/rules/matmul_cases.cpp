#include "rule_cases.h"

namespace tutti::rules {

std::vector<RuleCase> matmul_cases() {
  return {
      {.name = "mm",
       .notation = "ik,kj->ij",
       .operands = {{7, 5}, {5, 11}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].mm(t[1])}; }},
      {.name = "mm_of_one_transposed",
       .notation = "ik,jk->ij",
       .operands = {{7, 5}, {3, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].mm(t[1].t())}; }},
      {.name = "bmm",
       .notation = "bik,bkj->bij",
       .operands = {{3, 4, 5}, {3, 5, 2}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].bmm(t[1])}; }},
      {.name = "mv",
       .notation = "ik,k->i",
       .operands = {{7, 5}, {5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].mv(t[1])}; }},
      {.name = "dot",
       .notation = "k,k->",
       .operands = {{7}, {7}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].dot(t[1])}; }},
      {.name = "addmm",
       .notation = "j,ik,kj->ij",
       .operands = {{11}, {7, 5}, {5, 11}},
       .function = [](const Tensors& t) -> Tensors { return {torch::addmm(t[0], t[1], t[2], 0.5, 2)}; }},
      {.name = "addmv",
       .notation = "i,ik,k->i",
       .operands = {{7}, {7, 5}, {5}},
       .function = [](const Tensors& t) -> Tensors { return {torch::addmv(t[0], t[1], t[2], 0.5, 2)}; }},
      {.name = "baddbmm",
       .notation = "bij,bik,bkj->bij",
       .operands = {{3, 4, 2}, {3, 4, 5}, {3, 5, 2}},
       .function = [](const Tensors& t) -> Tensors { return {torch::baddbmm(t[0], t[1], t[2], 0.5, 2)}; }},
      {.name = "linear",
       .notation = "bk,ok,o->bo",
       .operands = {{7, 5}, {3, 5}, {3}},
       .function = [](const Tensors& t) -> Tensors { return {torch::linear(t[0], t[1], t[2])}; }},
  };
}

}  // namespace tutti::rules
