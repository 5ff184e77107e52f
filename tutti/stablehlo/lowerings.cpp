#include "tutti/stablehlo/lowerings.h"

#include <array>
#include <map>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::stablehlo {
namespace {

const std::map<std::string, Lowering, std::less<>>& lowerings() {
  static const std::map<std::string, Lowering, std::less<>> all = [] {
    std::map<std::string, Lowering, std::less<>> by_name;
    for (const auto family :
         {activation_lowerings(), convolution_lowerings(), creation_lowerings(), indexing_lowerings(), loss_lowerings(),
          matmul_lowerings(), normalization_lowerings(), pointwise_lowerings(), pooling_lowerings(), random_lowerings(),
          reduction_lowerings(), shape_lowerings(), softmax_lowerings()})
      for (const NamedLowering& one : family) by_name.emplace(one.op, one.lowering);
    return by_name;
  }();
  return all;
}

}  // namespace

std::vector<std::string> lowered_ops() {
  std::vector<std::string> names;
  for (const auto& [name, lowering] : lowerings()) names.push_back(name);
  return names;
}

std::string base_name(const std::string& op) {
  std::string name = op.substr(op.find("::") == std::string::npos ? 0 : op.find("::") + 2);
  name = name.substr(0, name.find('.'));
  if (name.ends_with('_') && !name.ends_with("__")) name.pop_back();
  return name;
}

Results lower(Builder& builder, const Call& call, const std::string& place) {
  const auto found = lowerings().find(call.op);
  if (found == lowerings().end())
    throw Error(ErrorCode::unimplemented,
                str("aten::", call.op, " cannot be compiled for an accelerator yet: ", place,
                    "; write it with other operations, or do it outside of the compiled function"));
  try {
    Results results = found->second(builder, call);
    for (size_t i = 0; i < results.size() && i < call.results.size(); ++i) {
      if (!results[i]) continue;
      if (results[i]->dims() != call.results[i].dims)
        throw Error(ErrorCode::internal, str("result ", i, " was to be ", to_string(call.results[i]), " and is ",
                                             to_string(results[i]->type)));
      results[i] = builder.convert(*results[i], call.results[i].dtype);
    }
    return results;
  } catch (const Error& error) {
    throw Error(error.code(), str("aten::", call.op, ", ", place, ": ", error.what()));
  }
}

}  // namespace tutti::stablehlo
