// Ops that compute each element of the result from the elements at its place, with broadcasting.
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

// Sizes that all tensor arguments broadcast to.
at::DimVector broadcast_sizes(const Planner& planner) {
  at::DimVector sizes;
  for (int i = 0; i < planner.num_arguments(); ++i) {
    const Spec* spec = planner.spec(i);
    if (!spec || planner.info().writes[static_cast<size_t>(i)]) continue;
    if (spec->sizes.size() > sizes.size()) sizes.insert(sizes.begin(), spec->sizes.size() - sizes.size(), 1);
    const size_t lead = sizes.size() - spec->sizes.size();
    for (size_t axis = 0; axis < spec->sizes.size(); ++axis)
      if (sizes[lead + axis] == 1) sizes[lead + axis] = spec->sizes[axis];
  }
  return sizes;
}

// Whether an out= argument would have to change its sizes.
bool resizes_output(const Planner& planner) {
  for (int i = 0; i < planner.num_arguments(); ++i)
    if (planner.info().writes_out && planner.info().writes[static_cast<size_t>(i)] && planner.spec(i) &&
        planner.spec(i)->sizes != broadcast_sizes(planner))
      return true;
  return false;
}

}  // namespace

bool pointwise(Planner& planner) {
  std::vector<Term> terms;
  size_t rank = 0;
  for (int i = 0; i < planner.num_arguments(); ++i) {
    if (planner.is_list(i)) return false;
    if (const Spec* spec = planner.spec(i)) rank = std::max(rank, spec->sizes.size());
  }
  if (resizes_output(planner)) return false;
  if (keeps_sizes_of_first(planner.info().name) && planner.spec(0) &&
      planner.spec(0)->sizes != broadcast_sizes(planner))
    throw NoShardedForm();
  const std::string all = letters(static_cast<int64_t>(rank));
  for (int i = 0; i < planner.num_arguments(); ++i)
    if (const Spec* spec = planner.spec(i))
      terms.push_back({i, all.substr(rank - spec->sizes.size()), -1, /*broadcasts=*/true});
  shard(planner, terms, std::vector<std::string>(planner.info().num_returns, all));
  return true;
}

namespace {

// Those that LibTorch does not tag as pointwise, in some overload at least.
constexpr const char* kPointwise[] = {"_conj",
                                      "_conj_copy",
                                      "_neg_view",
                                      "_neg_view_copy",
                                      "_prelu_kernel",
                                      "_prelu_kernel_backward",
                                      "_to_copy",
                                      "alias",
                                      "alias_copy",
                                      "bernoulli_",
                                      "cauchy_",
                                      "complex",
                                      "copy",
                                      "copy_",
                                      "detach",
                                      "detach_",
                                      "detach_copy",
                                      "elu_backward",
                                      "empty_like",
                                      "exponential_",
                                      "fill",
                                      "floor_divide",
                                      "full_like",
                                      "geometric_",
                                      "hardshrink_backward",
                                      "hardsigmoid_backward",
                                      "hardswish",
                                      "hardswish_backward",
                                      "hardtanh_backward",
                                      "leaky_relu_backward",
                                      "lift_fresh",
                                      "lift_fresh_copy",
                                      "log_normal_",
                                      "masked_fill",
                                      "mish_backward",
                                      "native_dropout_backward",
                                      "normal_",
                                      "ones_like",
                                      "polar",
                                      "random_",
                                      "rrelu_with_noise_backward",
                                      "rsub",
                                      "softplus_backward",
                                      "softshrink_backward",
                                      "uniform_",
                                      "zero",
                                      "zeros_like"};

}  // namespace

bool is_pointwise(const c10::OperatorHandle& op) {
  if (op.hasTag(at::Tag::pointwise)) return true;
  const c10::OperatorName& name = op.operator_name();
  if (name.name.back() != '_') return false;
  const std::string functional = name.name.substr(0, name.name.size() - 1);
  if (const auto found = all_rules().find(base_name(functional)); found != all_rules().end())
    return found->second.rule == pointwise;
  const auto other = c10::Dispatcher::singleton().findSchema({functional, name.overload_name});
  return other && other->hasTag(at::Tag::pointwise);
}

namespace {

// What is kept for the gradient has the operand's shape; but CUDA's kernel keeps nothing, in a tensor of shape [0].
bool keeps_buffer(const Planner& p) { return !p.mesh().devices.front().is_cuda(); }

// log_sigmoid_forward(self) -> (output, buffer)
bool log_sigmoid(Planner& p) {
  if (keeps_buffer(p)) return pointwise(p);
  const std::string all = letters(p.spec(0)->rank());
  shard(p, {{0, all}}, {all});
  p.result(1);
  return true;
}

// log_sigmoid_backward(grad, self, buffer)
bool log_sigmoid_backward(Planner& p) {
  if (keeps_buffer(p)) return pointwise(p);
  const std::string all = letters(p.spec(1)->rank());
  shard(p, {{0, all}, {1, all}}, {all});
  p.operand(2, unsharded(1));
  return true;
}

}  // namespace

void add_pointwise_rules(RuleTable& table) {
  for (const char* name : kPointwise) table[name] = {pointwise, SizeArguments::none};
  table["log_sigmoid_forward"] = {log_sigmoid, SizeArguments::none};
  table["log_sigmoid_backward"] = {log_sigmoid_backward, SizeArguments::none};
}

}  // namespace tutti
