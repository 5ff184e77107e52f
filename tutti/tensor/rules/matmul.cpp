// Products of matrices. The contracted axis may be sharded: the product is then a sum of the calls' products.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "tutti/tensor/operator_info.h"
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

// addmm(self, mat1, mat2, beta, alpha) and its kin: the first part adds `self`, the others must not add it again.
void add_once(const c10::OperatorHandle& op, torch::jit::Stack& call, const AxisPiece& part) {
  if (part.begin > 0) call[3] = at::Scalar(0);
  op.callBoxed(call);
}

// `contracted`: the axis of argument 1 that is.
bool added_product(Planner& p, const std::vector<Term>& terms, const std::string& result, int contracted) {
  if (p.info().writes[0] && !p.mesh().merged()) return false;  // decomposed
  shard(p, terms, {result});
  if (p.parts_of_first_result()) p.local_call(add_once, 1, contracted);
  return true;
}

bool mm(Planner& p) {
  shard(p, {{0, "ik"}, {1, "kj"}}, {"ij"});
  if (p.num_arguments() == 2) p.accumulate(add_product);  // else it names a dtype for the result
  return true;
}
bool bmm(Planner& p) { return shard(p, {{0, "bik"}, {1, "bkj"}}, {"bij"}), true; }
bool mv(Planner& p) { return shard(p, {{0, "ik"}, {1, "k"}}, {"i"}), true; }
bool dot(Planner& p) { return shard(p, {{0, "k"}, {1, "k"}}, {""}), true; }
bool addmm(Planner& p) { return added_product(p, {{0, added(p, "ij")}, {1, "ik"}, {2, "kj"}}, "ij", 1); }
bool addmv(Planner& p) { return added_product(p, {{0, added(p, "i")}, {1, "ik"}, {2, "k"}}, "i", 1); }
bool baddbmm(Planner& p) { return added_product(p, {{0, added(p, "bij")}, {1, "bik"}, {2, "bkj"}}, "bij", 2); }

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
