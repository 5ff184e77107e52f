#pragma once

#include <string>
#include <unordered_map>

#include "tutti/tensor/planner.h"

namespace tutti {

// What becomes of an op's SymInt arguments when it runs on pieces. An op that has some may not be in the table as
// `none`.
enum class SizeArguments {
  none,        // the schema has none
  unaffected,  // they speak of unsharded axes only, of strides or of paddings
  rewritten,   // the rule gives each call its local sizes
};

struct RuleEntry {
  Rule rule;
  SizeArguments sizes;
};

// Rules by op name, without "aten::" and overload. One rule serves all overloads of a name that take part.
using RuleTable = std::unordered_map<std::string, RuleEntry>;
using DecompositionTable = std::unordered_map<std::string, Decomposition>;

// One function for each op family; the tables are built from all of them.
void add_pointwise_rules(RuleTable& table);
void add_matmul_rules(RuleTable& table);
void add_view_rules(RuleTable& table);
void add_recurrent_rules(RuleTable& table);
void add_reduction_rules(RuleTable& table);
void add_convolution_rules(RuleTable& table);
void add_normalization_rules(RuleTable& table);
void add_loss_rules(RuleTable& table);
void add_embedding_rules(RuleTable& table);
void add_attention_rules(RuleTable& table);
void add_factory_rules(RuleTable& table);
void add_indexing_rules(RuleTable& table);
void add_moving_rules(RuleTable& table);
void add_pooling_rules(RuleTable& table);
void add_random_rules(RuleTable& table);
void add_view_decompositions(DecompositionTable& table);
void add_convolution_decompositions(DecompositionTable& table);
void add_factory_decompositions(DecompositionTable& table);
void add_random_decompositions(DecompositionTable& table);
void add_reduction_decompositions(DecompositionTable& table);
void add_matmul_decompositions(DecompositionTable& table);
void add_normalization_decompositions(DecompositionTable& table);
void add_loss_decompositions(DecompositionTable& table);

// "add" of "aten::add".
std::string base_name(const std::string& name);

// The rule of ops that compute each element of the result from the elements at its place.
bool pointwise(Planner& planner);
// Whether this is such an op: LibTorch tags it, or the op that it is the in-place form of, as pointwise.
bool is_pointwise(const c10::OperatorHandle& op);

const RuleTable& all_rules();
const DecompositionTable& all_decompositions();
// The rule of an op: the table's, else `pointwise` for an op that is; null for none.
Rule rule_of(const c10::OperatorHandle& op);

}  // namespace tutti
