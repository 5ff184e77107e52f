#include "rule_cases.h"

namespace tutti::rules {

using torch::indexing::Slice;

std::vector<RuleCase> picking_cases() {
  return {
      {.name = "gather",
       .notation = "Vb,ib->ib",
       .operands = {{7, 5}, integers({4, 5}, 7)},
       .function = [](const Tensors& t) -> Tensors { return {t[0].gather(0, t[1])}; }},
      {.name = "gather_of_fewer",
       .notation = "VB,iB->iB",
       .operands = {{7, 5}, integers({4, 3}, 7)},
       .function = [](const Tensors& t) -> Tensors { return {t[0].gather(0, t[1])}; }},
      {.name = "take_along_dim",
       .notation = "bV,bi->bi",
       .operands = {{5, 7}, integers({5, 4}, 7)},
       .function = [](const Tensors& t) -> Tensors { return {t[0].take_along_dim(t[1], 1)}; }},
      {.name = "index_select",
       .notation = "aVb,i->aib",
       .operands = {{3, 7, 5}, integers({4}, 7)},
       .function = [](const Tensors& t) -> Tensors { return {t[0].index_select(1, t[1])}; }},
      {.name = "index",
       .notation = "Vb,i->ib",
       .operands = {{7, 5}, integers({4}, 7)},
       .function = [](const Tensors& t) -> Tensors { return {t[0].index({t[1]})}; }},
      {.name = "index_of_a_later_axis",
       .notation = "aVb,ij->aijb",
       .operands = {{3, 7, 5}, integers({4, 3}, 7)},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].index({Slice(), t[1]})};
       }},
      {.name = "index_by_two",
       .notation = "UVb,i,i->ib",
       .operands = {{4, 7, 5}, integers({6}, 4), integers({6}, 7)},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].index({t[1], t[2]})};
       }},
      {.name = "index_by_two_apart",
       .notation = "UBV,i,i->iB",
       .operands = {{4, 5, 7}, integers({6}, 4), integers({6}, 7)},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].index({t[1], Slice(), t[2]})};
       }},
      {.name = "index_by_two_that_broadcast",
       .notation = "UVb,iA,j->ijb",
       .operands = {{4, 7, 5}, integers({6, 1}, 4), integers({3}, 7)},
       .function = [](const Tensors& t) -> Tensors {
         return {t[0].index({t[1], t[2]})};
       }},
      {.name = "take",
       .notation = "UV,ij->ij",
       .operands = {constant({4, 7}), integers({6, 3}, 28)},
       .function = [](const Tensors& t) -> Tensors { return {t[0].take(t[1])}; }},
      {.name = "bucketize",
       .notation = "ij,B->ij",
       .operands = {constant({7, 5}), constant(fractions({4}))},
       .function = [](const Tensors& t) -> Tensors { return {torch::bucketize(t[0], t[1].cumsum(0))}; }},
      {.name = "searchsorted_of_rows",
       .notation = "bV,bi->bi",
       .operands = {constant(fractions({5, 7})), constant({5, 4})},
       .function = [](const Tensors& t) -> Tensors { return {torch::searchsorted(t[0].cumsum(1), t[1])}; }},
      {.name = "one_hot",
       .notation = "ij->ijK",
       .operands = {integers({7, 5}, 4)},
       .function = [](const Tensors& t) -> Tensors { return {torch::one_hot(t[0], 4)}; },
       .forward = ","},
      {.name = "embedding_of_many_rows",
       .notation = "vd,ij->ijd",
       .operands = {{11, 5}, integers({2, 3}, 11)},
       .function = [](const Tensors& t) -> Tensors { return {torch::embedding(t[0], t[1], /*padding_idx=*/2)}; }},
      {.name = "embedding_of_many_places",
       .notation = "Vd,ij->ijd",
       .operands = {{5, 3}, integers({4, 7}, 5)},
       .function = [](const Tensors& t) -> Tensors { return {torch::embedding(t[0], t[1])}; }},
      {.name = "embedding_bag",
       .notation = "Vd,I,O->Bd",
       .operands = {{7, 3}, integers({6}, 7), integers({1}, 1)},
       .function = [](const Tensors& t) -> Tensors {
         return {std::get<0>(torch::embedding_bag(t[0], t[1], t[2], false, /*mode=*/1))};
       }},
  };
}

std::vector<RuleCase> placing_cases() {
  return {
      {.name = "scatter",
       .notation = "Vb,Ib,Ib->Vb",
       .operands = {{7, 5}, integers({4, 5}, 7), {4, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].scatter(0, t[1], t[2])}; }},
      {.name = "scatter_of_a_number",
       .notation = "bV,bI->bV",
       .operands = {{5, 7}, integers({5, 4}, 7)},
       .function = [](const Tensors& t) -> Tensors { return {t[0].scatter(1, t[1], 2.5)}; }},
      {.name = "scatter_of_fewer",
       .notation = "VB,IB,KB->VB",
       .operands = {{7, 5}, integers({2, 3}, 7), constant({4, 4})},
       .function = [](const Tensors& t) -> Tensors { return {t[0].scatter_add(0, t[1], t[2])}; }},
      {.name = "scatter_add",
       .notation = "Vb,ib,ib->Vb",
       .operands = {{7, 5}, integers({4, 5}, 7), {4, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].scatter_add(0, t[1], t[2])}; }},
      {.name = "scatter_reduce",
       .notation = "Vb,Ib,Ib->Vb",
       .operands = {constant({7, 5}), integers({4, 5}, 7), constant({4, 5})},
       .function = [](const Tensors& t) -> Tensors { return {t[0].scatter_reduce(0, t[1], t[2], "amax")}; }},
      {.name = "index_put",
       .notation = "Vb,I,Ib->Vb",
       .operands = {{7, 5}, integers({4}, 7), {4, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].index_put({t[1]}, t[2])}; }},
      {.name = "index_put_that_adds",
       .notation = "Vb,i,ib->Vb",
       .operands = {{7, 5}, integers({4}, 7), {4, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].index_put({t[1]}, t[2], true)}; }},
      {.name = "index_add",
       .notation = "aVb,i,aib->aVb",
       .operands = {{3, 7, 5}, integers({4}, 7), {3, 4, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].index_add(1, t[1], t[2], 0.5)}; }},
      {.name = "index_copy",
       .notation = "Vb,I,Ib->Vb",
       .operands = {{7, 5}, integers({4}, 7), {4, 5}},
       .function = [](const Tensors& t) -> Tensors { return {t[0].index_copy(0, t[1], t[2])}; }},
      {.name = "index_fill",
       .notation = "Vb,I->Vb",
       .operands = {{7, 5}, integers({4}, 7)},
       .function = [](const Tensors& t) -> Tensors { return {t[0].index_fill(0, t[1], 2.5)}; }},
  };
}

}  // namespace tutti::rules
