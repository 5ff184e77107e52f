// Products of matrices. The contracted axis may be sharded: the product is then a sum of the calls' products.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/einsum.h>

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
void add_self_once(const c10::OperatorHandle& op, torch::jit::Stack& call, const AxisPiece& part) {
  if (part.begin > 0) call[3] = at::Scalar(0);
  op.callBoxed(call);
}

// `contracted`: the axis of argument 1 that is.
bool added_product(Planner& p, const std::vector<Term>& terms, const std::string& result, int contracted) {
  shard(p, terms, {result});
  if (p.info().writes[0]) return p.mesh().merged() || !p.parts_of_first_result();  // decomposed
  if (p.parts_of_first_result()) p.local_call(add_self_once, 1, contracted);
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
bool addmv(Planner& p) {
  if (const Spec* self = p.spec(0), *matrix = p.spec(1); self && matrix && self->numel == 1 && matrix->numel == 0)
    return false;  // the size of the result is LibTorch's affair
  return added_product(p, {added(p, "i"), {1, "ik"}, {2, "k"}}, "i", 1);
}
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
// `kAxesOfSecond`: how many the second factor has.
template <int kContracted, int kAxesOfSecond>
Results decompose_in_place(at::ArrayRef<at::IValue> a) {
  const Tensor &self = a[0].toTensor(), &left = a[1].toTensor(), &right = a[2].toTensor();
  if (left.dim() != kContracted + 1 || right.dim() != kAxesOfSecond) return {};  // which LibTorch says
  if (kContracted == 2 && left.size(0) != right.size(0)) return {};              // as it says this, and types below
  if (!is_sharded(left, {kContracted}) && !is_sharded(right, {kContracted - 1})) return {};
  // Products of integers are scaled by whole numbers, which others are cut to.
  const auto scale = [&](const at::IValue& value) {
    const at::Scalar number = value.toScalar();
    if (self.scalar_type() == at::kBool) return at::Scalar(number.to<bool>());
    return at::isIntegralType(self.scalar_type(), /*includeBool=*/false) ? at::Scalar(number.to<int64_t>()) : number;
  };
  const at::Scalar beta = scale(a[3]);
  const auto is_of_type = [&](const Tensor& factor) { return factor.scalar_type() == self.scalar_type(); };
  if (!is_of_type(left) || !is_of_type(right)) return {};
  const Tensor product = left.matmul(right);
  if (product.sizes() != self.sizes()) return {};
  return {{(beta.equal(0) ? self.zero_() : self.mul_(beta)).add_(product, scale(a[4]))}};
}

// A product of float16 or bfloat16 over a sharded axis: LibTorch's kernels add in float32, and round once. `kFirst`:
// the first factor, whose axis `kContracted` is the one; `kOfSecond` is that of the second.
template <int kFirst, int kContracted, int kOfSecond>
Results in_sum_types(const char* name, at::ArrayRef<at::IValue> a) {
  const Tensor &left = a[kFirst].toTensor(), &right = a[kFirst + 1].toTensor();
  const at::ScalarType type = left.scalar_type();
  if (sum_type(type) == type || right.scalar_type() != type || left.dim() <= kContracted || right.dim() <= kOfSecond ||
      (!is_sharded(left, {kContracted}) && !is_sharded(right, {kOfSecond})))
    return {};
  std::vector<at::IValue> arguments(a.begin(), a.end());
  for (size_t i = 0; i <= kFirst + 1; ++i) arguments[i] = in_sum_type(arguments[i].toTensor());
  return {{in_type(call(name, "", std::move(arguments))[0].toTensor(), type)}};
}

Results decompose_mm(at::ArrayRef<at::IValue> a) {
  if (a.size() > 2) return {};
  return in_sum_types<0, 1, 0>("aten::mm", a);
}
Results decompose_bmm(at::ArrayRef<at::IValue> a) {
  if (a.size() > 2) return {};
  return in_sum_types<0, 2, 1>("aten::bmm", a);
}
Results decompose_mv(at::ArrayRef<at::IValue> a) { return in_sum_types<0, 1, 0>("aten::mv", a); }
Results decompose_dot(at::ArrayRef<at::IValue> a) { return in_sum_types<0, 0, 0>("aten::dot", a); }
Results decompose_addmm(at::ArrayRef<at::IValue> a) {
  if (a.size() > 5) return {};
  return in_sum_types<1, 1, 0>("aten::addmm", a);
}
// LibTorch's addmv of a matrix without elements keeps the size of an added vector of one: pieces get one of the rows'.
Results decompose_addmv(at::ArrayRef<at::IValue> a) {
  const Tensor &self = a[0].toTensor(), &matrix = a[1].toTensor();
  if (matrix.dim() == 2 && self.dim() < 2 && self.numel() == 1 && matrix.size(0) != 1 && matrix.numel() > 0) {
    std::vector<at::IValue> arguments(a.begin(), a.end());
    arguments[0] = self.expand({matrix.size(0)});
    return call("aten::addmv", "", std::move(arguments));
  }
  return in_sum_types<1, 1, 0>("aten::addmv", a);
}
Results decompose_baddbmm(at::ArrayRef<at::IValue> a) {
  if (a.size() > 5) return {};
  return in_sum_types<1, 2, 1>("aten::baddbmm", a);
}

// The same of an einsum, in which any letter may be contracted.
Results decompose_einsum(at::ArrayRef<at::IValue> a) {
  const std::string& equation = a[0].toStringRef();
  const std::string kept = equation.substr(equation.find("->") + 2);
  const auto factors = a[1].toTensorVector();
  const at::ScalarType type = factors[0].scalar_type();
  const auto is_of_type = [&](const Tensor& tensor) { return tensor.scalar_type() == type; };
  if (sum_type(type) == type || !std::all_of(factors.begin(), factors.end(), is_of_type)) return {};
  bool sums_parts = false;
  size_t factor = 0;
  int64_t axis = 0;
  for (const char letter : equation.substr(0, equation.find("->"))) {
    if (letter == ',') {
      ++factor;
      axis = 0;
    } else if (const int64_t at = axis++; kept.find(letter) == std::string::npos) {
      sums_parts |= is_sharded(factors[factor], {at});
    }
  }
  if (!sums_parts) return {};
  std::vector<Tensor> wide;
  for (const Tensor& tensor : factors) wide.push_back(in_sum_type(tensor));
  return {{in_type(at::einsum(equation, wide), type)}};
}

}  // namespace

void add_matmul_decompositions(DecompositionTable& table) {
  table["mm"] = decompose_mm;
  table["bmm"] = decompose_bmm;
  table["mv"] = decompose_mv;
  table["dot"] = table["vdot"] = decompose_dot;
  table["addmm"] = decompose_addmm;
  table["addmv"] = decompose_addmv;
  table["baddbmm"] = decompose_baddbmm;
  table["einsum"] = decompose_einsum;
  table["addmm_"] = decompose_in_place<1, 2>;
  table["addmv_"] = decompose_in_place<1, 1>;
  table["baddbmm_"] = decompose_in_place<2, 3>;
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
