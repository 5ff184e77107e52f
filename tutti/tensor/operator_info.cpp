#include "tutti/tensor/operator_info.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

bool is_scalar(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return (optional ? optional->getElementType() : type)->kind() == c10::TypeKind::NumberType;
}

}  // namespace

OperatorInfo::OperatorInfo(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  name = schema.name();
  num_arguments = schema.arguments().size();
  num_returns = schema.returns().size();
  for (const auto& argument : schema.arguments()) {
    if (argument.name() == "output_mask") output_mask = static_cast<int>(writes.size());
    const auto* alias = argument.alias_info();
    writes.push_back(alias && alias->isWrite());
    is_number.push_back(is_scalar(argument.type()));
    writes_out |= argument.is_out();
    writes_any |= writes.back();
  }
  for (const auto& result : schema.returns()) {
    written_return.push_back(-1);
    const auto* alias = result.alias_info();
    if (!alias || !alias->isWrite()) continue;
    for (size_t i = 0; i < num_arguments; ++i)
      if (writes[i] && *schema.arguments()[i].alias_info() == *alias) written_return.back() = static_cast<int8_t>(i);
  }
  is_view = num_returns > 0 && schema.returns()[0].alias_info() && !schema.returns()[0].alias_info()->isWrite() &&
            num_arguments > 0 && schema.arguments()[0].alias_info();
  is_view |= shares_memory_unsaid(name);
  is_reshape = keeps_order(name);
  asks_if_contiguous = tutti::asks_if_contiguous(name);
  changes_geometry = tutti::changes_geometry(op);
  for (const int argument : unnamed_writes(schema)) writes[static_cast<size_t>(argument)] = true;
  draws = draws_numbers(op);
  may_fill_plain = gives_plain_values(name);
  rule = rule_of(op);
  if (const auto found = all_decompositions().find(base_name(name)); found != all_decompositions().end() && !writes_out)
    decomposition = found->second;
  sparse_form = sparse_form_of(name);
  is_composite = is_composed(op) || is_composed_below_autograd(name);
}

}  // namespace tutti
