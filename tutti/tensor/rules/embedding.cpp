// Look-ups in a table of rows.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_assert_async.h>

#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/pieces.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

// Of a part of the table's rows: what the other parts hold is zero. Those parts' sum is the look-up.
void look_up_part(const c10::OperatorHandle& op, torch::jit::Stack& call, const AxisPiece& rows) {
  const at::Tensor indices = call[1].toTensor();
  if (rows.begin == 0)  // a row that no part has would be zero
    at::_assert_async(indices.ge(0).logical_and_(indices.lt(rows.size)).all(), "index out of range in self");
  const at::Tensor elsewhere = indices.lt(rows.begin).logical_or_(indices.ge(rows.begin + rows.length));
  call[1] = indices.sub(rows.begin).masked_fill_(elsewhere, 0);
  op.callBoxed(call);
  call[0] = call[0].toTensor().masked_fill_(elsewhere.unsqueeze(-1), 0);
}

// Letters of indices, before the table's 'v'.
std::string places_of(const Spec& indices) {
  if (indices.rank() > 'v' - 'i') throw NoShardedForm();
  return letters(indices.rank(), 'i');
}

// embedding(weight [v, d], indices [*], …) -> [*, d]. Rows that are sharded stay where the result is smaller than the
// table.
bool embedding(Planner& p) {
  const Spec *weight = p.spec(0), *indices = p.spec(1);
  const std::string places = places_of(*indices);
  const bool in_parts = indices->numel < weight->sizes[0];
  shard(p, {{0, in_parts ? "vd" : "Vd"}, {1, places}}, {places + "d"});
  if (p.parts_of_first_result()) p.local_call(look_up_part, 0, 0);
  return true;
}

// embedding_dense_backward(grad [*, d], indices [*], num_weights, padding_idx, scale_grad_by_freq) -> [V, d]
bool embedding_dense_backward(Planner& p) {
  if (p.boolean(4)) return false;  // divides by how often a row occurs in the whole batch
  const std::string places = places_of(*p.spec(1));
  shard(p, {{0, places + "d"}, {1, places}}, {"Vd"});
  return true;
}

enum BagMode : int64_t { kBagSum, kBagMean, kBagMax };

// _embedding_bag(weight [V, d], indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, …)
// -> (bags [b, d], offset2bag, bag_size, max_indices): columns are independent; bags are ragged.
bool embedding_bag(Planner& p) {
  std::vector<Term> terms{{0, "Vd"}, {1, letters(p.spec(1)->rank(), 'I')}, {2, "O"}, {6, "I"}};
  std::vector<std::string> bags{"Bd"};
  whole_where_empty(p, "d", terms, bags);
  const AxisMap axes = shard(p, terms, bags)[0];
  p.result(1);
  p.result(1);
  if (p.integer(4) == kBagMax)
    p.result(axes, p.sizes_of_first_result());
  else
    p.result(1);
  return true;
}

// _embedding_bag_backward(grad [b, d], indices, offsets, offset2bag, bag_size, maximum_indices, num_weights,
// scale_grad_by_freq, mode, sparse, per_sample_weights, …) -> [V, d]
bool embedding_bag_backward(Planner& p) {
  if (p.boolean(9)) return false;
  std::vector<Term> terms{{0, "Bd"}, {1, "I"}, {2, "O"}, {3, "I"}, {4, "B"}, {10, "I"}};
  terms.push_back({5, p.spec(5)->rank() == 2 ? "Bd" : "B"});
  std::vector<std::string> table{"Vd"};
  whole_where_empty(p, "d", terms, table);
  return shard(p, terms, table), true;
}

}  // namespace

void add_embedding_rules(RuleTable& table) {
  table["embedding"] = {embedding, SizeArguments::unaffected};
  table["embedding_dense_backward"] = {embedding_dense_backward, SizeArguments::unaffected};
  table["_embedding_bag"] = table["_embedding_bag_forward_only"] = {embedding_bag, SizeArguments::none};
  table["_embedding_bag_backward"] = {embedding_bag_backward, SizeArguments::unaffected};
}

}  // namespace tutti
