#include "rule_cases.h"

namespace tutti::rules {

std::vector<RuleCase> convolution_cases() {
  return {
      {.name = "conv1d",
       .notation = "ncL,ocK,o->noL",
       .operands = {{5, 6, 7}, {3, 6, 3}, {3}},
       .function = [](const Tensors& t) -> Tensors { return {torch::conv1d(t[0], t[1], t[2])}; }},
      {.name = "conv2d",
       .notation = "ncHW,ocKL,o->noHW",
       .operands = {{5, 3, 5, 5}, {6, 3, 3, 3}, {6}},
       .function = [](const Tensors& t) -> Tensors { return {torch::conv2d(t[0], t[1], t[2], 2, 1)}; }},
      {.name = "conv2d_without_bias",
       .notation = "ncHW,ocKL->noHW",
       .operands = {{5, 3, 5, 5}, {5, 3, 3, 3}},
       .function = [](const Tensors& t) -> Tensors { return {torch::conv2d(t[0], t[1], {}, 1, "same")}; }},
      {.name = "conv2d_of_few_channels",
       .notation = "nCHW,OCKL,O->nOHW",
       .operands = {{5, 1, 5, 5}, {1, 1, 3, 3}, {1}},
       .function = [](const Tensors& t) -> Tensors { return {torch::conv2d(t[0], t[1], t[2])}; }},
      {.name = "conv3d",
       .notation = "ncDHW,ocJKL->noDHW",
       .operands = {{3, 3, 3, 3, 3}, {3, 3, 2, 2, 2}},
       .function = [](const Tensors& t) -> Tensors { return {torch::conv3d(t[0], t[1])}; }},
      {.name = "conv_transpose2d",
       .notation = "ncHW,coKL,o->noHW",
       .operands = {{5, 3, 4, 4}, {3, 6, 3, 3}, {6}},
       .function = [](const Tensors& t) -> Tensors { return {torch::conv_transpose2d(t[0], t[1], t[2], 2, 1, 1)}; }},
      {.name = "conv2d_of_each_channel",
       .notation = "ngHW,gKLM,g->ngHW",
       .operands = {{3, 6, 4, 4}, {12, 1, 3, 3}, {12}},
       .function = [](const Tensors& t) -> Tensors { return {torch::conv2d(t[0], t[1], t[2], 1, 1, 1, 6)}; }},
      {.name = "conv2d_of_groups_that_are_cut",
       .notation = "nGHW,GKLM,G->nGHW",
       .operands = {{3, 10, 4, 4}, {5, 2, 3, 3}, {5}},
       .function = [](const Tensors& t) -> Tensors { return {torch::conv2d(t[0], t[1], t[2], 1, 1, 1, 5)}; }},
      {.name = "conv_transpose2d_of_groups",
       .notation = "ngHW,gKLM,g->ngHW",
       .operands = {{3, 12, 4, 4}, {12, 1, 3, 3}, {6}},
       .function = [](const Tensors& t) -> Tensors { return {torch::conv_transpose2d(t[0], t[1], t[2], 1, 1, 0, 6)}; }},
      {.name = "conv2d_without_batch",
       .notation = "cHW,ocKL,o->oHW",
       .operands = {{3, 5, 5}, {6, 3, 3, 3}, {6}},
       .function = [](const Tensors& t) -> Tensors { return {torch::conv2d(t[0], t[1], t[2])}; }},
  };
}

std::vector<RuleCase> pooling_cases() {
  return {
      {.name = "max_pool1d",
       .notation = "ncL->ncL",
       .operands = {{5, 3, 6}},
       .function = [](const Tensors& t) -> Tensors { return {torch::max_pool1d(t[0], 2)}; }},
      {.name = "max_pool2d",
       .notation = "ncHW->ncHW",
       .operands = {{5, 3, 6, 6}},
       .function = [](const Tensors& t) -> Tensors { return {torch::max_pool2d(t[0], 2)}; }},
      {.name = "max_pool2d_of_few_channels",
       .notation = "nCHW->nCHW",
       .operands = {{5, 1, 6, 6}},
       .function = [](const Tensors& t) -> Tensors { return {torch::max_pool2d(t[0], 3, 2, 1)}; }},
      {.name = "max_pool3d",
       .notation = "ncDHW->ncDHW",
       .operands = {{3, 3, 4, 4, 4}},
       .function = [](const Tensors& t) -> Tensors { return {torch::max_pool3d(t[0], 2)}; }},
      {.name = "avg_pool1d",
       .notation = "ncL->ncL",
       .operands = {{5, 3, 6}},
       .function = [](const Tensors& t) -> Tensors { return {torch::avg_pool1d(t[0], 2)}; }},
      {.name = "avg_pool2d",
       .notation = "ncHW->ncHW",
       .operands = {{5, 3, 6, 6}},
       .function = [](const Tensors& t) -> Tensors { return {torch::avg_pool2d(t[0], 2)}; }},
      {.name = "avg_pool3d",
       .notation = "ncDHW->ncDHW",
       .operands = {{3, 3, 4, 4, 4}},
       .function = [](const Tensors& t) -> Tensors { return {torch::avg_pool3d(t[0], 2)}; }},
      {.name = "adaptive_avg_pool1d",
       .notation = "ncL->ncL",
       .operands = {{5, 3, 7}},
       .function = [](const Tensors& t) -> Tensors { return {torch::adaptive_avg_pool1d(t[0], {3})}; }},
      {.name = "adaptive_avg_pool2d",
       .notation = "ncHW->ncHW",
       .operands = {{5, 3, 7, 6}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::adaptive_avg_pool2d(t[0], {3, 2})};
       }},
      {.name = "adaptive_avg_pool3d",
       .notation = "ncDHW->ncDHW",
       .operands = {{3, 3, 4, 4, 4}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::adaptive_avg_pool3d(t[0], {3, 2, 2})};
       }},
      {.name = "adaptive_max_pool2d",
       .notation = "ncHW->ncHW",
       .operands = {{5, 3, 7, 6}},
       .function = [](const Tensors& t) -> Tensors {
         return {std::get<0>(torch::adaptive_max_pool2d(t[0], {3, 2}))};
       }},
      {.name = "upsample_nearest1d",
       .notation = "ncL->ncL",
       .operands = {{5, 3, 4}},
       .function = [](const Tensors& t) -> Tensors { return {torch::upsample_nearest1d(t[0], {7})}; }},
      {.name = "upsample_linear1d",
       .notation = "ncL->ncL",
       .operands = {{5, 3, 4}},
       .function = [](const Tensors& t) -> Tensors { return {torch::upsample_linear1d(t[0], {7}, false)}; }},
      {.name = "upsample_nearest2d",
       .notation = "ncHW->ncHW",
       .operands = {{5, 3, 4, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::upsample_nearest2d(t[0], {7, 6})};
       }},
      {.name = "upsample_bilinear2d",
       .notation = "ncHW->ncHW",
       .operands = {{5, 3, 4, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::upsample_bilinear2d(t[0], {7, 6}, true)};
       }},
      {.name = "upsample_bicubic2d",
       .notation = "ncHW->ncHW",
       .operands = {{5, 3, 4, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::upsample_bicubic2d(t[0], {7, 6}, false)};
       }},
      {.name = "upsample_trilinear3d",
       .notation = "ncDHW->ncDHW",
       .operands = {{3, 3, 2, 2, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::upsample_trilinear3d(t[0], {3, 4, 5}, false)};
       }},
      {.name = "grid_sampler",
       .notation = "ncHW,npqZ->ncpq",
       .operands = {{5, 3, 4, 3}, {5, 2, 3, 2}},
       .function = [](const Tensors& t) -> Tensors { return {torch::grid_sampler(t[0], t[1], 0, 0, false)}; }},
      {.name = "im2col",
       .notation = "nCHW->nKL",
       .operands = {{5, 3, 4, 3}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::im2col(t[0], {2, 2}, {1, 1}, {0, 0}, {1, 1})};
       }},
      {.name = "col2im",
       .notation = "nKL->nCHW",
       .operands = {{5, 12, 6}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::col2im(t[0], {4, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1})};
       }},
  };
}

}  // namespace tutti::rules
