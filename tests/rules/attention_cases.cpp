#include "rule_cases.h"

namespace tutti::rules {

std::vector<RuleCase> attention_cases() {
  return {
      {.name = "attention",
       .notation = "nhlE,nhSE,nhSE->nhlE",
       .operands = {{5, 3, 7, 4}, {5, 3, 6, 4}, {5, 3, 6, 4}},
       .function = [](const Tensors& t) -> Tensors { return {torch::scaled_dot_product_attention(t[0], t[1], t[2])}; }},
      {.name = "attention_of_few_heads",
       .notation = "nHlE,nHSE,nHSE->nHlE",
       .operands = {{5, 1, 7, 4}, {5, 1, 6, 4}, {5, 1, 6, 4}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0, false, /*scale=*/0.25)};
       }},
      {.name = "attention_that_is_causal",
       .notation = "nhLE,nhSE,nhSE->nhLE",
       .operands = {{5, 3, 6, 4}, {5, 3, 6, 4}, {5, 3, 6, 4}},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0, true)};
       }},
      {.name = "attention_with_a_mask",
       .notation = "nhlE,nhSE,nhSE,lS->nhlE",
       .operands = {{5, 3, 7, 4}, {5, 3, 6, 4}, {5, 3, 6, 4}, constant({7, 6})},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::scaled_dot_product_attention(t[0], t[1], t[2], t[3])};
       }},
      {.name = "attention_with_a_mask_for_each",
       .notation = "nhlE,nhSE,nhSE,nAlS->nhlE",
       .operands = {{5, 3, 7, 4}, {5, 3, 6, 4}, {5, 3, 6, 4}, constant({5, 1, 7, 6})},
       .function = [](const Tensors& t) -> Tensors {
         return {torch::scaled_dot_product_attention(t[0], t[1], t[2], t[3])};
       }},
      {.name = "attention_written_out",
       .notation = "blE,bSE,bSE->blE",
       .operands = {{5, 3, 5}, {5, 4, 5}, {5, 4, 5}},
       .function = [](const Tensors& t) -> Tensors {
         const Tensor weights = torch::softmax(t[0].bmm(t[1].transpose(1, 2)) * 0.5, -1);
         return {weights.bmm(t[2])};
       }},
  };
}

}  // namespace tutti::rules
