// Attention: independent over batch and heads, and over queries where their order says nothing.
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/pieces.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

struct AttentionLetters {
  std::string query, keys, logsumexp, mask;

  // A causal mask counts queries from the first.
  AttentionLetters(bool causal, const Spec* mask_spec)
      : query(causal ? "nhLE" : "nhlE"), keys("nhSE"), logsumexp(query.substr(0, 3)) {
    if (!mask_spec) return;
    if (mask_spec->sizes.size() > 4) throw NoShardedForm();
    mask = (logsumexp + "S").substr(4 - mask_spec->sizes.size());
  }
};

// _scaled_dot_product_flash_attention_for_cpu(query [n, h, l, e], key [n, h, s, e], value, dropout, causal, mask, …)
// -> (output, logsumexp [n, h, l])
bool flash_attention(Planner& p) {
  const AttentionLetters l(p.boolean(4), p.spec(5));
  std::vector<Term> terms{{0, l.query}, {1, l.keys}, {2, l.keys}, {5, l.mask, -1, /*broadcasts=*/true}};
  std::vector<std::string> results{l.query, l.logsumexp};
  whole_where_empty(p, "hl", terms, results);
  return shard(p, terms, results), true;
}

// …_backward(grad, query, key, value, output, logsumexp, dropout, causal, mask, …) -> (gradients of query, key, value)
bool flash_attention_backward(Planner& p) {
  const AttentionLetters l(p.boolean(7), p.spec(8));
  std::vector<Term> terms{{0, l.query},
                          {1, l.query},
                          {2, l.keys},
                          {3, l.keys},
                          {4, l.query},
                          {5, l.logsumexp},
                          {8, l.mask, -1, /*broadcasts=*/true}};
  std::vector<std::string> results{l.query, l.keys, l.keys};
  whole_where_empty(p, "hl", terms, results);
  return shard(p, terms, results), true;
}

// _safe_softmax(self, dim, dtype): the axis whole.
bool safe_softmax(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  if (rank == 0) return false;
  const std::string all = whole_at(letters(rank), {p.axis(1, rank)});
  return shard(p, {{0, all}}, {all}), true;
}

}  // namespace

void add_attention_rules(RuleTable& table) {
  table["_scaled_dot_product_flash_attention_for_cpu"] = {flash_attention, SizeArguments::none};
  table["_scaled_dot_product_flash_attention_for_cpu_backward"] = {flash_attention_backward, SizeArguments::none};
  table["_safe_softmax"] = {safe_softmax, SizeArguments::none};
}

}  // namespace tutti
