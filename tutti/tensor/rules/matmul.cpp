// Products of matrices. Where a term is added, the contracted axis stays whole: each call would add it again.
#include <ATen/core/Tensor.h>

#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

// The letters of an added term that broadcasts to `all`.
std::string added(const Planner& planner, const std::string& all) {
  const Spec* spec = planner.spec(0);
  return spec ? all.substr(all.size() - spec->sizes.size()) : "";
}

void add_product(const Tensor& sum, at::ArrayRef<at::IValue> factors) {
  sum.addmm_(factors[0].toTensor(), factors[1].toTensor());
}

bool mm(Planner& p) {
  shard(p, {{0, "ik"}, {1, "kj"}}, {"ij"});
  if (p.num_arguments() == 2) p.accumulate(add_product);  // else it names a dtype for the result
  return true;
}
bool bmm(Planner& p) { return shard(p, {{0, "bik"}, {1, "bkj"}}, {"bij"}), true; }
bool mv(Planner& p) { return shard(p, {{0, "ik"}, {1, "k"}}, {"i"}), true; }
bool dot(Planner& p) { return shard(p, {{0, "k"}, {1, "k"}}, {""}), true; }
bool addmm(Planner& p) { return shard(p, {{0, added(p, "ij")}, {1, "iK"}, {2, "Kj"}}, {"ij"}), true; }
bool addmv(Planner& p) { return shard(p, {{0, added(p, "i")}, {1, "iK"}, {2, "K"}}, {"i"}), true; }
bool baddbmm(Planner& p) { return shard(p, {{0, added(p, "bij")}, {1, "biK"}, {2, "bKj"}}, {"bij"}), true; }

}  // namespace

void add_matmul_rules(RuleTable& table) {
  table["mm"] = {mm, SizeArguments::none};
  table["bmm"] = {bmm, SizeArguments::none};
  table["mv"] = {mv, SizeArguments::none};
  table["dot"] = {dot, SizeArguments::none};
  table["addmm"] = {addmm, SizeArguments::none};
  table["addmm_"] = {addmm, SizeArguments::none};
  table["addmv"] = {addmv, SizeArguments::none};
  table["baddbmm"] = {baddbmm, SizeArguments::none};
}

}  // namespace tutti
