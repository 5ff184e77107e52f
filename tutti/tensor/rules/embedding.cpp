// Look-ups in a table of rows.
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

// embedding(weight [V, d], indices [*], …) -> [*, d]
bool embedding(Planner& p) {
  const std::string places = letters(p.spec(1)->rank(), 'i');
  shard(p, {{0, "Vd"}, {1, places}}, {places + "d"});
  return true;
}

// embedding_dense_backward(grad [*, d], indices [*], num_weights, padding_idx, scale_grad_by_freq) -> [V, d]
bool embedding_dense_backward(Planner& p) {
  if (p.boolean(4)) return false;  // divides by how often a row occurs in the whole batch
  const std::string places = letters(p.spec(1)->rank(), 'i');
  shard(p, {{0, places + "d"}, {1, places}}, {"Vd"});
  return true;
}

}  // namespace

void add_embedding_rules(RuleTable& table) {
  table["embedding"] = {embedding, SizeArguments::unaffected};
  table["embedding_dense_backward"] = {embedding_dense_backward, SizeArguments::unaffected};
}

}  // namespace tutti
