// Products of matrices. The contracted axis may be sharded: the product is then a sum of the calls' products.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/arguments.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

// An added term that broadcasts to `all`.
Term added(const Planner& planner, const std::string& all) {
  const Spec* spec = planner.spec(0);
  if (!spec) return {0, ""};
  if (spec->sizes.size() > all.size()) throw NoShardedForm();
  return {0, all.substr(all.size() - spec->sizes.size()), -1, /*broadcasts=*/true};
}

void add_product(const Tensor& sum, at::ArrayRef<at::IValue> factors) {
  sum.addmm_(factors[0].toTensor(), factors[1].toTensor());
}

// addmm(self, mat1, mat2, beta, alpha) and its kin: the first part adds `self`, the others must not add it again.
void add_bias_once(const c10::OperatorHandle& op, torch::jit::Stack& call, const AxisPiece& part) {
  if (part.begin > 0) call[3] = at::Scalar(0);
  op.callBoxed(call);
}

// `contracted`: the axis of argument 1 that is.
bool added_product(Planner& p, const std::vector<Term>& terms, const std::string& result, int contracted) {
  shard(p, terms, {result});
  if (p.info().writes[0]) return p.mesh().merged() || !p.parts_of_first_result();  // decomposed
  if (p.parts_of_first_result()) p.local_call(add_bias_once, 1, contracted);
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
bool addmm(Planner& p) { return added_product(p, {added(p, "ij"), {1, "ik"}, {2, "kj"}}, "ij", 1); }
bool addmv(Planner& p) { return added_product(p, {added(p, "i"), {1, "ik"}, {2, "k"}}, "i", 1); }
bool baddbmm(Planner& p) { return added_product(p, {added(p, "bij"), {1, "bik"}, {2, "bkj"}}, "bij", 2); }

bool ger(Planner& p) { return shard(p, {{0, "i"}, {1, "j"}}, {"ij"}), true; }
bool addr(Planner& p) { return shard(p, {added(p, "ij"), {1, "i"}, {2, "j"}}, {"ij"}), true; }
bool addbmm(Planner& p) { return added_product(p, {added(p, "ij"), {1, "Bik"}, {2, "Bkj"}}, "ij", 2); }

// einsum(equation, tensors, path), its equation in small letters: its own notation.
bool einsum(Planner& p) {
  const std::string& equation = p.argument(0).toStringRef();
  const size_t arrow = equation.find("->");
  std::vector<Term> terms{{1, "", 0}};
  for (const char letter : equation.substr(0, arrow)) {
    if (letter == ',')
      terms.push_back({1, "", static_cast<int>(terms.size())});
    else
      terms.back().letters += letter;
  }
  shard(p, terms, {equation.substr(arrow + 2)});
  return true;
}

// self.addmm_(mat1, mat2, beta, alpha) over a sharded contracted axis: a call can't add to a value that others write.
template <int kContracted>
Results decompose_in_place(at::ArrayRef<at::IValue> a) {
  const Tensor &self = a[0].toTensor(), &left = a[1].toTensor(), &right = a[2].toTensor();
  if (!is_sharded(left, {kContracted}) && !is_sharded(right, {kContracted - 1})) return {};
  // Products of integers are scaled by whole numbers, which others are cut to.
  const auto scale = [&](const at::IValue& value) {
    const at::Scalar number = value.toScalar();
    if (self.scalar_type() == at::kBool) return at::Scalar(number.to<bool>());
    return at::isIntegralType(self.scalar_type(), /*includeBool=*/false) ? at::Scalar(number.to<int64_t>()) : number;
  };
  const at::Scalar beta = scale(a[3]);
  const Tensor product = left.matmul(right);
  if (product.sizes() != self.sizes()) return {};  // not taken, which LibTorch says
  return {{(beta.equal(0) ? self.zero_() : self.mul_(beta)).add_(product, scale(a[4]))}};
}

}  // namespace

void add_matmul_decompositions(DecompositionTable& table) {
  table["addmm_"] = table["addmv_"] = decompose_in_place<1>;
  table["baddbmm_"] = decompose_in_place<2>;
}

void add_matmul_rules(RuleTable& table) {
  table["mm"] = {mm, SizeArguments::none};
  table["bmm"] = {bmm, SizeArguments::none};
  table["mv"] = {mv, SizeArguments::none};
  table["dot"] = {dot, SizeArguments::none};
  table["addmm"] = table["addmm_"] = {addmm, SizeArguments::none};
  table["addmv"] = table["addmv_"] = {addmv, SizeArguments::none};
  table["baddbmm"] = table["baddbmm_"] = {baddbmm, SizeArguments::none};
  table["einsum"] = {einsum, SizeArguments::none};
  table["ger"] = {ger, SizeArguments::none};
  table["addr"] = table["addr_"] = {addr, SizeArguments::none};
  table["vdot"] = {dot, SizeArguments::none};
  table["addbmm"] = {addbmm, SizeArguments::none};
}

}  // namespace tutti
