#include "rule_cases.h"

namespace tutti::rules {

using torch::indexing::Slice;

std::vector<RuleCase> view_cases() {
  return {
      {.name = "flatten",
       .notation = "iJ->i",
       .operands = {{6, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].flatten()}; }},
      {.name = "flatten_where_pieces_disagree",
       .notation = "IJ->I",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].flatten()}; }},
      {.name = "unflatten",
       .notation = "ij->iZj",
       .operands = {{12, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].unflatten(0, {6, 2})};
       }},
      {.name = "view_of_another_split",
       .notation = "iJ->iJ",
       .operands = {{12, 5}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].view({6, 10})};
       }},
      {.name = "view_of_two_groups",
       .notation = "iJkL->ikZ",
       .operands = {{6, 2, 6, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].view({12, 6, 3})};
       }},
      {.name = "view_that_drops_ones",
       .notation = "AiBj->ij",
       .operands = {{1, 7, 1, 5}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].view({7, 5})};
       }},
      {.name = "view_of_the_same_sizes",
       .notation = "ij->ij",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].view({7, -1})};
       }},
      {.name = "view_of_nothing",
       .notation = "iJ->i",
       .operands = {{0, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].view({0})}; }},
      {.name = "reshape_of_transposed",
       .notation = "Ji->i",
       .operands = {{5, 6}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].t().reshape({30})}; }},
      {.name = "t",
       .notation = "ij->ji",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].t()}; }},
      {.name = "transpose",
       .notation = "ijk->kji",
       .operands = {{7, 5, 3}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].transpose(0, -1)}; }},
      {.name = "permute",
       .notation = "ijk->kij",
       .operands = {{7, 5, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].permute({-1, 0, 1})};
       }},
      {.name = "movedim",
       .notation = "ijk->jki",
       .operands = {{7, 5, 3}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].movedim(0, 2)}; }},
      {.name = "unsqueeze",
       .notation = "ij->iZj",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].unsqueeze(1)}; }},
      {.name = "squeeze",
       .notation = "iAjB->ijB",
       .operands = {{7, 1, 5, 1}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].squeeze(1)}; }},
      {.name = "squeeze_all",
       .notation = "iAjB->ij",
       .operands = {{7, 1, 5, 1}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].squeeze()}; }},
      {.name = "expand",
       .notation = "iAj->Zikj",
       .operands = {{7, 1, 5}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].expand({2, -1, 4, 5})};
       }},
      {.name = "broadcast_to",
       .notation = "j->ij",
       .operands = {{5}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::broadcast_to(t[0], {7, 5})};
       }},
      {.name = "select",
       .notation = "iJk->ik",
       .operands = {{7, 5, 3}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].select(1, -2)}; }},
      {.name = "slice",
       .notation = "Ij->Ij",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].slice(0, 1, -1)}; }},
      {.name = "slice_of_the_whole",
       .notation = "ij->ij",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].slice(0, -7, 9)}; }},
      {.name = "slice_with_a_step_in_place",
       .notation = "ij->ij",
       .operands = {{12, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].slice(0, 0, 12, 2)}; }},
      {.name = "slice_with_a_step",
       .notation = "Ij->Ij",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].slice(0, 0, 7, 2)}; }},
      {.name = "index_by_numbers",
       .notation = "IJk->Jk",
       .operands = {{7, 5, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].index({2, Slice(1, 4)})};
       }},
      {.name = "split",
       .notation = "iJ->iJ,iJ",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return t[0].split(3, 1); }},
      {.name = "split_with_sizes",
       .notation = "Ij->Ij,Ij",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors {
         return t[0].split_with_sizes({2, 5}, 0);
       }},
      {.name = "chunk",
       .notation = "Ij->Ij,Ij,Ij",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return t[0].chunk(3); }},
      {.name = "unbind",
       .notation = "iJ->i,i,i",
       .operands = {{7, 3}},
       .function = [](const Tensors& t) -> Tensors { return t[0].unbind(1); }},
      {.name = "diagonal",
       .notation = "IjK->jZ",
       .operands = {{5, 7, 4}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].diagonal(1, 0, 2)}; }},
      {.name = "diag_embed",
       .notation = "iJ->JiK",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].diag_embed(0, 0, 2)}; }},
      {.name = "unfold",
       .notation = "iJk->iJkZ",
       .operands = {{7, 5, 3}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].unfold(1, 3, 2)}; }},
      {.name = "complex_and_back",
       .notation = "ijZ->ijZ",
       .operands = {{7, 5, 2}},
       .function = [](const Tensors& t) -> Tensors { return {torch::view_as_real(torch::view_as_complex(t[0]) * 2)}; }},
  };
}

}  // namespace tutti::rules
