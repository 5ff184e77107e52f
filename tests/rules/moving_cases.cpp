#include "rule_cases.h"

namespace tutti::rules {

namespace F = torch::nn::functional;

namespace {

Tensor padded(const Tensor& x, std::vector<int64_t> pad, F::PadFuncOptions::mode_t mode) {
  return F::pad(x, F::PadFuncOptions(std::move(pad)).mode(mode));
}

}  // namespace

std::vector<RuleCase> moving_cases() {
  return {
      {.name = "cat",
       .notation = "Ij,Kj->Lj",
       .operands = {{7, 5}, {3, 5}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::cat({t[0], t[1]})};
       }},
      {.name = "cat_of_last",
       .notation = "iJ,iK->iL",
       .operands = {{7, 5}, {7, 2}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::cat({t[0], t[1]}, -1)};
       }},
      {.name = "stack",
       .notation = "ij,ij->iZj",
       .operands = {{7, 5}, {7, 5}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::stack({t[0], t[1]}, 1)};
       }},
      {.name = "pad",
       .notation = "ijK->ijK",
       .operands = {{7, 5, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::constant_pad_nd(t[0], {1, 2, 0, 0}, 0.5)};
       }},
      {.name = "pad_that_crops",
       .notation = "Ij->Ij",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::constant_pad_nd(t[0], {0, 0, -1, 2})};
       }},
      {.name = "pad_reflect",
       .notation = "ncHW->ncHW",
       .operands = {{5, 3, 4, 4}},
       .function = [](const Tensors& t) -> Tensors {
         return {padded(t[0], {1, 2, 2, 1}, torch::kReflect)};
       }},
      {.name = "pad_replicate",
       .notation = "ncDHW->ncDHW",
       .operands = {{5, 3, 2, 2, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {padded(t[0], {1, 2, 2, 1, 0, 1}, torch::kReplicate)};
       }},
      {.name = "pad_circular",
       .notation = "ncL->ncL",
       .operands = {{5, 3, 6}},
       .function = [](const Tensors& t) -> Tensors {
         return {padded(t[0], {1, 2}, torch::kCircular)};
       }},
      {.name = "pad_replicate_of_few_channels",
       .notation = "nCL->nCL",
       .operands = {{5, 1, 4}},
       .function = [](const Tensors& t) -> Tensors {
         return {padded(t[0], {1, 2}, torch::kReplicate)};
       }},
      {.name = "flip",
       .notation = "iJ->iJ",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].flip(1)}; }},
      {.name = "flip_of_two",
       .notation = "IjK->IjK",
       .operands = {{7, 5, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].flip({0, 2})};
       }},
      {.name = "roll",
       .notation = "Ij->Ij",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].roll(-2, 0)}; }},
      {.name = "roll_of_all",
       .notation = "IJ->IJ",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].roll(3)}; }},
      {.name = "rot90",
       .notation = "IjK->KjI",
       .operands = {{7, 5, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].rot90(1, {0, 2})};
       }},
      {.name = "repeat",
       .notation = "iJ->ZiJ",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].repeat({2, 1, 3})};
       }},
      {.name = "tile",
       .notation = "iJ->iJ",
       .operands = {{7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].tile({2})}; }},
      {.name = "repeat_interleave",
       .notation = "ij->ij",
       .operands = {{6, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].repeat_interleave(2, 0)}; }},
      {.name = "tril",
       .notation = "biJ->biJ",
       .operands = {{3, 7, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].tril(-1)}; }},
      {.name = "triu",
       .notation = "bIj->bIj",
       .operands = {{3, 5, 7}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].triu(1)}; }},
      {.name = "select_scatter",
       .notation = "iJk,ik->iJk",
       .operands = {{7, 5, 3}, {7, 3}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].select_scatter(t[1], 1, 2)}; }},
      {.name = "slice_scatter",
       .notation = "Ij,Kj->Ij",
       .operands = {{7, 5}, {3, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].slice_scatter(t[1], 0, 2, 5)}; }},
      {.name = "pixel_shuffle",
       .notation = "nCHW->nCHW",
       .operands = {{5, 8, 2, 3}},
       .function = [](const Tensors& t) -> Tensors { return {torch::pixel_shuffle(t[0], 2)}; }},
      {.name = "channel_shuffle",
       .notation = "nChw->nChw",
       .operands = {{5, 6, 2, 3}},
       .function = [](const Tensors& t) -> Tensors { return {torch::channel_shuffle(t[0], 3)}; }},
  };
}

}  // namespace tutti::rules
