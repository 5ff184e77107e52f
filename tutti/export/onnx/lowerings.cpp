#include "tutti/export/onnx/lowerings.h"

#include <map>

#include "tutti/core/error.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::saved_model::onnx {
namespace {

const std::map<std::string, Lowering, std::less<>>& all_lowerings() {
  static const std::map<std::string, Lowering, std::less<>> all = [] {
    std::map<std::string, Lowering, std::less<>> by_name;
    for (const auto family :
         {activation_lowerings(), attention_lowerings(), convolution_lowerings(), creation_lowerings(),
          indexing_lowerings(), matmul_lowerings(), normalization_lowerings(), pointwise_lowerings(),
          pooling_lowerings(), recurrent_lowerings(), reduction_lowerings(), shape_lowerings()})
      for (const NamedLowering& one : family) by_name.emplace(one.op, one.lowering);
    return by_name;
  }();
  return all;
}

}  // namespace

std::vector<std::string> lowered_ops() {
  std::vector<std::string> names;
  for (const auto& [name, lowering] : all_lowerings()) names.push_back(name);
  return names;
}

std::vector<std::optional<Operand>> lower(const CallToLower& call, const std::string& op) {
  const auto found = all_lowerings().find(stablehlo::base_name(op));
  if (found == all_lowerings().end()) call.refuse("");
  const Operands made = found->second(call);
  std::vector<std::optional<Operand>> results(call.num_results());
  for (size_t i = 0; i < results.size() && i < made.size(); ++i)
    if (!made[i].name.empty() && call.gives(i)) results[i] = call.graph.cast(made[i], call.result(i).dtype);
  return results;
}

}  // namespace tutti::saved_model::onnx
