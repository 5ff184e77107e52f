#include "tutti/tensor/rules/rule_table.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

namespace tutti {

std::string base_name(const std::string& name) { return name.substr(name.rfind(':') + 1); }

const RuleTable& all_rules() {
  static const RuleTable& table = *[] {
    auto* rules = new RuleTable;
    add_attention_rules(*rules);
    add_convolution_rules(*rules);
    add_embedding_rules(*rules);
    add_factory_rules(*rules);
    add_indexing_rules(*rules);
    add_loss_rules(*rules);
    add_matmul_rules(*rules);
    add_moving_rules(*rules);
    add_normalization_rules(*rules);
    add_pointwise_rules(*rules);
    add_pooling_rules(*rules);
    add_random_rules(*rules);
    add_recurrent_rules(*rules);
    add_reduction_rules(*rules);
    add_view_rules(*rules);
    return rules;
  }();
  return table;
}

const DecompositionTable& all_decompositions() {
  static const DecompositionTable& table = *[] {
    auto* decompositions = new DecompositionTable;
    add_convolution_decompositions(*decompositions);
    add_factory_decompositions(*decompositions);
    add_loss_decompositions(*decompositions);
    add_matmul_decompositions(*decompositions);
    add_normalization_decompositions(*decompositions);
    add_random_decompositions(*decompositions);
    add_reduction_decompositions(*decompositions);
    add_view_decompositions(*decompositions);
    return decompositions;
  }();
  return table;
}

Rule rule_of(const c10::OperatorHandle& op) {
  const bool pointwise_op = is_pointwise(op);
  // Where results are to be written into given tensors of other sizes or layouts, other rules have no answer.
  const auto& arguments = op.schema().arguments();
  const auto is_out = [](const c10::Argument& argument) { return argument.is_out(); };
  if (!pointwise_op && std::any_of(arguments.begin(), arguments.end(), is_out)) return nullptr;
  const auto found = all_rules().find(base_name(op.operator_name().name));
  if (found != all_rules().end()) return found->second.rule;
  return pointwise_op ? pointwise : nullptr;
}

}  // namespace tutti
