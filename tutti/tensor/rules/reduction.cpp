// Reductions, softmax, sorting: sums may be taken in parts, everything else needs the axis it reduces whole.
#include <ATen/ops/mean.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var_mean.h>

#include <algorithm>

#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

using at::IValue;

// The axes that an argument names, non-negative; all of them for none.
at::DimVector reduced_axes(const at::DimVector& named, int64_t rank) {
  at::DimVector axes = named;
  for (auto& axis : axes)
    if (axis < 0) axis += rank;
  if (axes.empty())
    for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

// The letters that remain, with a fresh capital in the place of each kept axis of size 1.
std::string remaining(const std::string& all, const at::DimVector& reduced, bool keep) {
  std::string result;
  for (size_t axis = 0; axis < all.size(); ++axis) {
    const bool is_reduced = std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(axis)) != reduced.end();
    if (!is_reduced)
      result += all[axis];
    else if (keep)
      result += 'Z';
  }
  return result;
}

// op(self, dim[]?, keepdim, …) with an overload op(self, …) that reduces all axes.
struct Reduced {
  at::DimVector axes;
  bool keep;
};
Reduced parse_reduction(const Planner& p, int axes_argument) {
  const int64_t rank = p.spec(0)->rank();
  // The overloads differ in arity: without a list of axes the next argument is no list of integers.
  const bool named = p.num_arguments() > axes_argument + 1 && p.is_boolean(axes_argument + 1);
  if (!named) return {reduced_axes({}, rank), false};
  return {reduced_axes(p.integers(axes_argument), rank), p.boolean(axes_argument + 1)};
}

template <Combination kCombination>
bool reduction(Planner& p) {
  const auto [axes, keep] = parse_reduction(p, 1);
  const std::string all = letters(p.spec(0)->rank());
  shard(p, {{0, all}}, {remaining(all, axes, keep)}, kCombination);
  return true;
}

// Results without parts: the reduced axes are whole.
bool whole_reduction(Planner& p) {
  const auto [axes, keep] = parse_reduction(p, 1);
  const std::string all = whole_at(letters(p.spec(0)->rank()), axes);
  shard(p, {{0, all}}, std::vector<std::string>(p.info().num_returns, remaining(all, axes, keep)));
  return true;
}

// var(self, dim, correction, keepdim) and var_mean.
bool variance(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  if (p.num_arguments() != 4) return false;
  const auto axes = reduced_axes(p.integers(1), rank);
  const std::string all = letters(rank);
  const std::string result = remaining(all, axes, p.boolean(3));
  const std::string operand = p.mesh().merged() ? all : whole_at(all, axes);  // merged, the sums are free
  shard(p, {{0, operand}}, std::vector<std::string>(p.info().num_returns, result));
  return true;
}

// op(self, dim, …): the same axes, the named one whole.
bool along_axis(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  if (rank == 0) return false;
  const std::string all = whole_at(letters(rank), {p.axis(1, rank)});
  shard(p, {{0, all}}, std::vector<std::string>(p.info().num_returns, all));
  return true;
}

// glu_backward(grad, self, dim); glu halves the axis.
bool glu_backward(Planner& p) {
  const int64_t rank = p.spec(1)->rank();
  const std::string all = whole_at(letters(rank), {p.axis(2, rank)});
  shard(p, {{0, all}, {1, all}}, {all});
  return true;
}

// op_backward(grad, output, dim, dtype)
bool along_axis_backward(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  if (rank == 0) return false;
  const std::string all = whole_at(letters(rank), {p.axis(2, rank)});
  shard(p, {{0, all}, {1, all}}, {all});
  return true;
}

// A number for the program: the whole value.
bool whole_number(Planner& p) {
  shard(p, {{0, letters(p.spec(0)->rank(), 'A')}}, {});
  return true;
}

// nonzero(self): how many rows there are depends on all of the values.
bool nonzero(Planner& p) {
  shard(p, {{0, letters(p.spec(0)->rank(), 'A')}}, {"YZ"});
  return true;
}

// equal(self, other) of merged buffers; pieces are decomposed.
bool equal(Planner& p) {
  if (p.spec(0)->sizes != p.spec(1)->sizes) return false;
  shard(p, {{0, letters(p.spec(0)->rank())}, {1, letters(p.spec(1)->rank())}}, {});
  return true;
}

// mean = sum / count: a local mean would be over the piece alone.
std::optional<std::vector<IValue>> decompose_mean(at::ArrayRef<IValue> arguments) {
  const Tensor& self = arguments[0].toTensor();
  std::optional<at::ScalarType> dtype;
  if (!arguments.back().isNone()) dtype = arguments.back().toScalarType();
  const bool named = arguments.size() == 4;
  const at::DimVector axes =
      reduced_axes(named && !arguments[1].isNone() ? arguments[1].toDimVector() : at::DimVector(), self.dim());
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(self.size(axis));
  return std::vector<IValue>{at::sum(self, axes, named && arguments[2].toBool(), dtype).div(count)};
}

std::optional<std::vector<IValue>> moments(at::ArrayRef<IValue> arguments) {
  const Tensor& self = arguments[0].toTensor();
  if (arguments.size() != 4 || self.is_complex()) return {};
  const at::DimVector axes =
      reduced_axes(arguments[1].isNone() ? at::DimVector() : arguments[1].toDimVector(), self.dim());
  const double correction = arguments[2].isNone() ? 1 : arguments[2].toScalar().toDouble();
  const bool keep = arguments[3].toBool();
  double count = 1;
  for (const int64_t axis : axes) count *= static_cast<double>(self.size(axis));
  const Tensor mean = at::mean(self, axes, /*keepdim=*/true);
  const Tensor deviation = self.sub(mean);
  Tensor variance = at::sum(deviation.mul(deviation), axes, keep).div(std::max(count - correction, 0.0));
  return std::vector<IValue>{std::move(variance), keep ? mean : mean.squeeze(axes)};
}

// equal: no element differs.
std::optional<std::vector<IValue>> decompose_equal(at::ArrayRef<IValue> arguments) {
  const Tensor &a = arguments[0].toTensor(), &b = arguments[1].toTensor();
  if (a.sizes() != b.sizes()) return std::vector<IValue>{false};
  return std::vector<IValue>{at::sum(at::ne(a, b)).item<int64_t>() == 0};
}

std::optional<std::vector<IValue>> decompose_var(at::ArrayRef<IValue> arguments) {
  auto both = moments(arguments);
  if (both) both->resize(1);
  return both;
}

}  // namespace

void add_reduction_rules(RuleTable& table) {
  table["sum"] = table["nansum"] = {reduction<Combination::sum>, SizeArguments::none};
  table["mean"] = {reduction<Combination::sum>, SizeArguments::none};  // of merged buffers; pieces are decomposed
  table["prod"] = {reduction<Combination::product>, SizeArguments::none};
  table["amax"] = {reduction<Combination::maximum>, SizeArguments::none};
  table["amin"] = {reduction<Combination::minimum>, SizeArguments::none};
  table["any"] = {reduction<Combination::any>, SizeArguments::none};
  table["all"] = {reduction<Combination::all>, SizeArguments::none};
  table["var"] = table["std"] = table["var_mean"] = table["std_mean"] = {variance, SizeArguments::none};
  for (const char* name : {"argmax", "argmin", "max", "min", "logsumexp"})
    table[name] = {whole_reduction, SizeArguments::none};
  for (const char* name : {"_softmax", "_log_softmax", "cumsum", "cumprod"})
    table[name] = {along_axis, SizeArguments::none};
  table["glu"] = {along_axis, SizeArguments::none};
  table["glu_backward"] = {glu_backward, SizeArguments::none};
  table["_softmax_backward_data"] = {along_axis_backward, SizeArguments::none};
  table["_log_softmax_backward_data"] = {along_axis_backward, SizeArguments::none};
  table["nonzero"] = {nonzero, SizeArguments::none};
  table["equal"] = {equal, SizeArguments::none};
  table["_local_scalar_dense"] = {whole_number, SizeArguments::none};
}

void add_reduction_decompositions(DecompositionTable& table) {
  table["mean"] = decompose_mean;
  table["equal"] = decompose_equal;
  table["var_mean"] = moments;
  table["var"] = decompose_var;
}

}  // namespace tutti
