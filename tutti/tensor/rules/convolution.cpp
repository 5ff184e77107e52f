// Convolutions and poolings: independent over the batch axis; channels and space stay whole.
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

// "nBCD…" for an operand with a batch axis.
std::string batched(const Planner& p, int argument) { return "n" + letters(p.spec(argument)->rank() - 1, 'B'); }

// convolution(input, weight, bias, stride, …) -> output
bool convolution(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  shard(p, {{0, batched(p, 0)}, {1, letters(rank, 'P')}, {2, "K"}}, {batched(p, 0)});
  return true;
}

// convolution_backward(grad, input, weight, …) -> (grad_input, grad_weight, grad_bias)
bool convolution_backward(Planner& p) {
  const std::string weight = letters(p.spec(2)->rank(), 'P');
  shard(p, {{0, batched(p, 0)}, {1, batched(p, 1)}, {2, weight}}, {batched(p, 1), weight, "K"});
  return true;
}

// A pooling and its backward: every tensor has the batch axis first. Without one (an unbatched image) it gathers.
template <int kSpatial>
bool pool(Planner& p) {
  std::vector<Term> terms;
  for (int i = 0; i < p.num_arguments(); ++i) {
    const Spec* spec = p.spec(i);
    if (!spec) continue;
    if (spec->rank() != kSpatial + 2) return false;
    terms.push_back({i, "nc" + letters(kSpatial, 'A')});
  }
  shard(p, terms, std::vector<std::string>(p.info().num_returns, "nc" + letters(kSpatial, 'A')));
  return true;
}

}  // namespace

void add_convolution_rules(RuleTable& table) {
  constexpr auto kStrides = SizeArguments::unaffected;
  table["convolution"] = table["_convolution"] = {convolution, kStrides};
  table["convolution_backward"] = {convolution_backward, kStrides};
  for (const char* name : {"max_pool2d_with_indices", "max_pool2d_with_indices_backward", "avg_pool2d",
                           "avg_pool2d_backward", "_adaptive_avg_pool2d", "_adaptive_avg_pool2d_backward",
                           "adaptive_max_pool2d", "adaptive_max_pool2d_backward", "upsample_nearest2d"})
    table[name] = {pool<2>, kStrides};
  for (const char* name :
       {"max_pool3d_with_indices", "max_pool3d_with_indices_backward", "avg_pool3d", "avg_pool3d_backward",
        "_adaptive_avg_pool3d", "_adaptive_avg_pool3d_backward", "adaptive_max_pool3d", "adaptive_max_pool3d_backward"})
    table[name] = {pool<3>, kStrides};
  table["avg_pool1d"] = {pool<1>, kStrides};
}

}  // namespace tutti
