#include "tutti/tensor/rules/rule_table.h"

namespace tutti {

const RuleTable& all_rules() {
  static const RuleTable& table = *[] {
    auto* rules = new RuleTable;
    add_convolution_rules(*rules);
    add_embedding_rules(*rules);
    add_loss_rules(*rules);
    add_matmul_rules(*rules);
    add_normalization_rules(*rules);
    add_pointwise_rules(*rules);
    add_reduction_rules(*rules);
    add_view_rules(*rules);
    return rules;
  }();
  return table;
}

const DecompositionTable& all_decompositions() {
  static const DecompositionTable& table = *[] {
    auto* decompositions = new DecompositionTable;
    add_loss_decompositions(*decompositions);
    add_normalization_decompositions(*decompositions);
    add_reduction_decompositions(*decompositions);
    add_view_decompositions(*decompositions);
    return decompositions;
  }();
  return table;
}

}  // namespace tutti
