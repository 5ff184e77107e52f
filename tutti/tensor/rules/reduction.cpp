// Reductions, softmax, sorting. What an associative function reduces may be reduced in parts; in separate buffers some
// others are decomposed into such ones where the axis they reduce is sharded.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/log.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/min.h>
#include <ATen/ops/nansum.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/arguments.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

using at::IValue;

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

// In separate buffers, parts of these ops cannot be combined: they are decomposed instead.
bool takes_no_parts(const Planner& p) { return p.mesh().merged() || !p.parts_of_first_result(); }

// op(self, dim[]?, keepdim, …) with an overload op(self, …) that reduces all axes.
struct Reduced {
  at::DimVector axes;
  bool keep;
};
Reduced parse_reduction(const Planner& p, int axes_argument) {
  // The overloads differ in arity: without a list of axes the next argument is no list of integers.
  const bool named = p.num_arguments() > axes_argument + 1 && p.is_boolean(axes_argument + 1);
  const int64_t rank = p.spec(0)->rank();
  if (!named) return {all_axes(rank), false};
  return {axes_or_all(p.argument(axes_argument), rank), p.boolean(axes_argument + 1)};
}

template <Combination kCombination>
bool reduction(Planner& p) {
  const auto [axes, keep] = parse_reduction(p, 1);
  const std::string all = letters(p.spec(0)->rank());
  shard(p, {{0, all}}, {remaining(all, axes, keep)}, kCombination);
  return true;
}

// any and all: an empty list of axes is none of them, for other ops it is all.
template <Combination kCombination>
bool truth(Planner& p) {
  if (p.num_arguments() < 2 || !p.argument(1).isIntList() || !p.integers(1).empty()) return reduction<kCombination>(p);
  const std::string all = letters(p.spec(0)->rank());
  return shard(p, {{0, all}}, {all}), true;
}

// op(self, dim[], keepdim) with the axes at kAxes; decomposed where they are sharded.
template <int kAxes>
bool decomposed_reduction(Planner& p) {
  const auto [axes, keep] = parse_reduction(p, kAxes);
  const std::string all = letters(p.spec(0)->rank());
  shard(p, {{0, all}}, std::vector<std::string>(p.info().num_returns, remaining(all, axes, keep)));
  return takes_no_parts(p);
}

// var(self, dim, correction, keepdim) and its kin.
bool variance(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  if (p.num_arguments() != 4) return false;
  const std::string all = letters(rank);
  const std::string result = remaining(all, axes_or_all(p.argument(1), rank), p.boolean(3));
  shard(p, {{0, all}}, std::vector<std::string>(p.info().num_returns, result));
  return takes_no_parts(p);
}

// count_nonzero(self, dim[] or dim?)
bool count_nonzero(Planner& p) {
  const std::string all = letters(p.spec(0)->rank());
  shard(p, {{0, all}}, {remaining(all, axes_or_all(p.argument(1), p.spec(0)->rank()), false)});
  return true;
}

// aminmax(self, dim?, keepdim) -> (min, max)
bool aminmax(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  const std::string all = letters(rank);
  const std::string result = remaining(all, axes_or_all(p.argument(1), rank), p.boolean(2));
  const AxisMap axes = shard(p, {{0, all}}, {result}, Combination::minimum)[0];
  p.result(axes, p.sizes_of_first_result(), p.parts_of_first_result(), Combination::maximum);
  return true;
}

// A part's indices count from where the part begins.
void index_from_start(const c10::OperatorHandle& op, torch::jit::Stack& call, const AxisPiece& part) {
  op.callBoxed(call);
  call[1].toTensor().add_(part.begin);
}

// Keeps the value that is more extreme, or NaN, and its index; of equals the earlier one, as one device does.
template <bool kMaximum>
void keep_extreme(at::ArrayRef<Tensor> results, at::ArrayRef<Tensor> later) {
  const Tensor &value = results[0], &index = results[1];
  Tensor better = kMaximum ? later[0].gt(value) : later[0].lt(value);
  better.logical_or_(later[0].isnan().logical_and_(value.isnan().logical_not_()));
  value.copy_(at::where(better, later[0], value));
  index.copy_(at::where(better, later[1], index));
}

// max(self, dim, keepdim) -> (values, indices) and max(self)
template <bool kMaximum>
bool extreme(Planner& p) {
  if (p.info().num_returns == 1) return reduction < kMaximum ? Combination::maximum : Combination::minimum > (p);
  const int64_t rank = p.spec(0)->rank();
  if (rank == 0) return false;
  const std::string all = letters(rank);
  const int axis = p.axis(1, rank);
  const std::string result = remaining(all, {axis}, p.boolean(2));
  shard(p, {{0, all}}, {result, result});
  p.merge(keep_extreme<kMaximum>);
  p.local_call(index_from_start, 0, axis);
  return true;
}

// op(self, …, dim, …) -> results of self's rank; the named axis whole.
bool whole_along(Planner& p, int axis_argument) {
  const int64_t rank = p.spec(0)->rank();
  if (rank == 0) return false;
  const std::string all = whole_at(letters(rank), {p.axis(axis_argument, rank)});
  shard(p, {{0, all}}, std::vector<std::string>(p.info().num_returns, all));
  return true;
}
template <int kAxis>
bool along_axis(Planner& p) {
  return whole_along(p, kAxis);
}

// sort(self, dim, descending), sort(self, stable, dim, descending)
bool sort(Planner& p) { return whole_along(p, p.is_integer(1) ? 1 : 2); }

// op(self, …, dim, keepdim) -> (values, indices) of one element along the axis, and op(self).
template <int kAxis>
bool selection(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  if (rank == 0) return false;
  const bool named = p.num_arguments() > kAxis + 1;
  const at::DimVector axes = named ? at::DimVector{p.axis(kAxis, rank)} : all_axes(rank);
  const std::string all = whole_at(letters(rank), axes);
  shard(p, {{0, all}},
        std::vector<std::string>(p.info().num_returns, remaining(all, axes, named && p.boolean(kAxis + 1))));
  return true;
}

// argmax(self, dim?, keepdim): over all axes the place in the whole value; over a sharded axis decomposed.
bool argument_of_extreme(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  std::string all = letters(rank);
  const at::DimVector axes = axes_or_all(p.argument(1), rank);
  if (p.is_none(1)) all = whole_at(all, axes);
  shard(p, {{0, all}}, {remaining(all, axes, p.boolean(2))});
  return takes_no_parts(p);
}

// softmax(self, dim, …): decomposed where the axis is sharded.
bool softmax(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  if (rank == 0) return false;
  const std::string all = letters(rank), whole = whole_at(all, {p.axis(1, rank)});
  const std::string& operand = p.mesh().merged() ? all : whole;
  shard(p, {{0, operand}}, {operand});
  return true;
}

// softmax_backward(grad, output, dim, dtype)
bool softmax_backward(Planner& p) {
  const int64_t rank = p.spec(0)->rank();
  if (rank == 0) return false;
  const std::string all = letters(rank), whole = whole_at(all, {p.axis(2, rank)});
  const std::string& operand = p.mesh().merged() ? all : whole;
  shard(p, {{0, operand}, {1, operand}}, {operand});
  return true;
}

// glu_backward(grad, self, dim); glu halves the axis.
bool glu_backward(Planner& p) {
  const int64_t rank = p.spec(1)->rank();
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

// masked_select(self, mask), likewise.
bool masked_select(Planner& p) {
  const int64_t rank = std::max(p.spec(0)->rank(), p.spec(1)->rank());
  const std::string all = letters(rank, 'A');
  shard(p,
        {{0, all.substr(all.size() - p.spec(0)->sizes.size())}, {1, all.substr(all.size() - p.spec(1)->sizes.size())}},
        {"Z"});
  return true;
}

// equal(self, other) of merged buffers; pieces are decomposed.
bool equal(Planner& p) {
  if (p.spec(0)->sizes != p.spec(1)->sizes) return false;
  shard(p, {{0, letters(p.spec(0)->rank())}, {1, letters(p.spec(1)->rank())}}, {});
  return true;
}

// mean = sum / count: a local mean would be over the piece alone.
Results decompose_mean(at::ArrayRef<IValue> a) {
  const Tensor& self = a[0].toTensor();
  const bool named = a.size() == 4;
  const at::DimVector axes = named ? axes_or_all(a[1], self.dim()) : all_axes(self.dim());
  if (!is_sharded(self, axes)) return {};
  const at::ScalarType type = a.back().isNone() ? self.scalar_type() : a.back().toScalarType();
  const Tensor total = at::sum(self, axes, named && a[2].toBool(), sum_type(type));
  return {{in_type(total.div_(count_of(self, axes)), type)}};
}

Tensor product(const Tensor& self, at::IntArrayRef axes, bool keep, at::ScalarType type) {
  return axes.size() == 1 ? at::prod(self, axes[0], keep, type) : at::prod(self, type);
}
Tensor sum(const Tensor& self, at::IntArrayRef axes, bool keep, at::ScalarType type) {
  return at::sum(self, axes, keep, type);
}
Tensor sum_of_numbers(const Tensor& self, at::IntArrayRef axes, bool keep, at::ScalarType type) {
  return at::nansum(self, axes, keep, type);
}

// op(self, dim, keepdim, dtype?) and op(self, dtype?) of float16 and bfloat16, which elements of another type become
// first: what parts come to is float32 until all are combined.
template <auto kReduce>
Results decompose_combination(at::ArrayRef<IValue> a) {
  const Tensor& self = a[0].toTensor();
  const at::ScalarType type = a.back().isNone() ? self.scalar_type() : a.back().toScalarType(), wide = sum_type(type);
  if (wide == type) return {};
  const bool named = a.size() == 4;
  const at::DimVector axes = named ? axes_or_all(a[1], self.dim()) : all_axes(self.dim());
  if (!is_sharded(self, axes)) return {};
  return {{kReduce(self.to(type), axes, named && a[2].toBool(), wide).to(type)}};
}

// var_mean(self, dim, correction, keepdim) over a sharded axis.
Results moments(at::ArrayRef<IValue> a) {
  if (a.size() != 4) return {};
  const at::DimVector axes = axes_or_all(a[1], a[0].toTensor().dim());
  if (a[0].toTensor().is_complex() || !is_sharded(a[0].toTensor(), axes)) return {};
  const Tensor self = in_sum_type(a[0].toTensor());
  const double correction = a[2].isNone() ? 1 : a[2].toScalar().toDouble();
  const bool keep = a[3].toBool();
  const Tensor mean = at::mean(self, axes, /*keepdim=*/true);
  const Tensor deviation = self.sub(mean);
  const double degrees = self.numel() == 0 ? 0 : std::max(count_of(self, axes) - correction, 0.0);  // of nothing NaN
  return {{at::sum(deviation.mul(deviation), axes, keep).div_(degrees), keep ? mean : mean.squeeze(axes)}};
}

template <bool kRoot, size_t kResults>
Results decompose_variance(at::ArrayRef<IValue> a) {
  Results both = moments(a);
  if (both && kRoot) both->front() = both->front().toTensor().sqrt();
  if (!both) return {};
  both->resize(kResults);
  for (IValue& result : *both) result = in_type(result.toTensor(), a[0].toTensor().scalar_type());
  return both;
}

// equal: no element differs.
Results decompose_equal(at::ArrayRef<IValue> a) {
  const Tensor &self = a[0].toTensor(), &other = a[1].toTensor();
  if (self.sizes() != other.sizes()) return {{false}};
  return {{at::sum(at::ne(self, other)).item<int64_t>() == 0}};
}

// Of absolute values.
Tensor norm_of(const Tensor& size, double order, at::IntArrayRef axes, bool keep) {
  if (order == 2) return at::sum(size.mul(size), axes, keep).sqrt_();
  if (order == 1) return at::sum(size, axes, keep);
  if (order == 0) return at::sum(size.ne(0), axes, keep, size.scalar_type());
  if (std::isinf(order)) return order > 0 ? at::amax(size, axes, keep) : at::amin(size, axes, keep);
  return at::sum(size.pow(order), axes, keep).pow(1 / order);
}

// norm(self, p, dim[], keepdim, dtype) over a sharded axis, by sums of powers.
Results decompose_norm(at::ArrayRef<IValue> a) {
  Tensor self = a[0].toTensor();
  const bool named = a.size() > 3;
  const at::DimVector axes = named ? axes_or_all(a[2], self.dim()) : all_axes(self.dim());
  const bool has_norm = self.is_floating_point() || self.is_complex();  // else LibTorch tells what is wrong
  if (!has_norm || !is_sharded(self, axes)) return {};
  const bool keep = named && a[3].toBool();
  const size_t dtype = named ? 4 : 2;
  if (a.size() > dtype && !a[dtype].isNone()) {
    const at::ScalarType type = a[dtype].toScalarType();
    TORCH_CHECK(c10::promoteTypes(self.scalar_type(), type) == type, "norm: the dtype of the input (",
                self.scalar_type(), ") should be convertible without narrowing to the specified dtype (", type, ")");
    self = self.to(type);
  }
  const double order = a[1].isNone() ? 2 : a[1].toScalar().toDouble();
  const bool has_identity = order >= 0 && !std::isinf(order);
  TORCH_CHECK(has_identity || std::ranges::none_of(axes, [&](int64_t axis) { return self.size(axis) == 0; }),
              "norm: there is no norm of order ", order,
              " of no elements, for the operation does not have an identity");
  const at::ScalarType type = c10::toRealValueType(self.scalar_type());
  return {{in_type(norm_of(in_sum_type(self).abs(), order, axes, keep), type)}};
}

// max(x) + log(sum(exp(x - max(x)))); of no elements log(0).
Results decompose_logsumexp(at::ArrayRef<IValue> a) {
  const Tensor& given = a[0].toTensor();
  const at::DimVector axes = axes_or_all(a[1], given.dim());
  const bool names_axes = !a[1].isIntList() || !a[1].toIntVector().empty();  // else LibTorch has its own idea of it
  if (!names_axes || !is_sharded(given, axes) || !given.is_floating_point()) return {};
  const Tensor self = in_sum_type(given);
  if (self.numel() == 0) return {{in_type(at::sum(self.exp(), axes, a[2].toBool()).log_(), given.scalar_type())}};
  Tensor top = at::amax(self, axes, /*keepdim=*/true);
  top = top.masked_fill(at::isinf(top), 0);
  const Tensor result = at::sum(self.sub(top).exp_(), axes, /*keepdim=*/true).log_().add_(top);
  return {{in_type(a[2].toBool() ? result : result.squeeze(axes), given.scalar_type())}};
}

// argmax is what max finds beside the value.
template <bool kMaximum>
Results decompose_argument(at::ArrayRef<IValue> a) {
  const Tensor& self = a[0].toTensor();
  if (a[1].isNone() || !is_sharded(self, {a[1].toInt()})) return {};
  const bool keep = a[2].toBool();
  return {{std::get<1>(kMaximum ? at::max(self, a[1].toInt(), keep) : at::min(self, a[1].toInt(), keep))}};
}

// exp(x - max(x)) / sum, and its logarithm.
template <bool kLogarithm>
Results decompose_softmax(at::ArrayRef<IValue> a) {
  const Tensor& given = a[0].toTensor();
  const int64_t axis = a[1].toInt();
  if (!is_sharded(given, {axis}) || (a[2].toBool() && given.is_cpu())) return {};  // which CPUs do not convert
  const at::ScalarType type = a[2].toBool() ? at::kFloat : given.scalar_type();
  if (given.numel() == 0) return {{in_type(given, type).clone()}};
  const Tensor self = in_sum_type(given);
  Tensor below_top = self.sub(at::amax(self, {axis}, /*keepdim=*/true));
  if (kLogarithm) return {{in_type(below_top.sub_(at::sum(below_top.exp(), {axis}, /*keepdim=*/true).log_()), type)}};
  below_top.exp_();
  return {{in_type(below_top.div_(at::sum(below_top, {axis}, /*keepdim=*/true)), type)}};
}

// (grad, output, dim, dtype): output * (grad - sum(grad * output)); grad - exp(output) * sum(grad).
template <bool kLogarithm>
Results decompose_softmax_backward(at::ArrayRef<IValue> a) {
  const int64_t axis = a[2].toInt();
  if (!is_sharded(a[1].toTensor(), {axis}) && !is_sharded(a[0].toTensor(), {axis})) return {};
  const at::ScalarType type = a[3].toScalarType();
  const Tensor gradient = in_sum_type(a[0].toTensor()), output = in_sum_type(a[1].toTensor());
  if (kLogarithm) return {{in_type(gradient.sub(output.exp().mul(at::sum(gradient, {axis}, /*keepdim=*/true))), type)}};
  return {{in_type(gradient.sub(at::sum(gradient.mul(output), {axis}, /*keepdim=*/true)).mul(output), type)}};
}

}  // namespace

void add_reduction_rules(RuleTable& table) {
  table["sum"] = table["nansum"] = {reduction<Combination::sum>, SizeArguments::none};
  table["prod"] = {reduction<Combination::product>, SizeArguments::none};
  table["amax"] = {reduction<Combination::maximum>, SizeArguments::none};
  table["amin"] = {reduction<Combination::minimum>, SizeArguments::none};
  table["any"] = {truth<Combination::maximum>, SizeArguments::none};
  table["all"] = {truth<Combination::minimum>, SizeArguments::none};
  table["count_nonzero"] = {count_nonzero, SizeArguments::none};
  table["aminmax"] = {aminmax, SizeArguments::none};
  table["max"] = {extreme<true>, SizeArguments::none};
  table["min"] = {extreme<false>, SizeArguments::none};
  table["argmax"] = table["argmin"] = {argument_of_extreme, SizeArguments::none};
  table["mean"] = table["logsumexp"] = {decomposed_reduction<1>, SizeArguments::none};
  table["norm"] = table["linalg_vector_norm"] = {decomposed_reduction<2>, SizeArguments::none};
  table["var"] = table["std"] = table["var_mean"] = table["std_mean"] = {variance, SizeArguments::none};
  table["_softmax"] = table["_log_softmax"] = {softmax, SizeArguments::none};
  table["_softmax_backward_data"] = table["_log_softmax_backward_data"] = {softmax_backward, SizeArguments::none};
  for (const char* name : {"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "glu"})
    table[name] = {along_axis<1>, SizeArguments::none};
  table["topk"] = {along_axis<2>, SizeArguments::unaffected};
  table["sort"] = {sort, SizeArguments::none};
  table["median"] = table["nanmedian"] = table["mode"] = {selection<1>, SizeArguments::none};
  table["kthvalue"] = {selection<2>, SizeArguments::unaffected};
  table["glu_backward"] = {glu_backward, SizeArguments::none};
  table["nonzero"] = {nonzero, SizeArguments::none};
  table["masked_select"] = {masked_select, SizeArguments::none};
  table["equal"] = {equal, SizeArguments::none};
  table["_local_scalar_dense"] = {whole_number, SizeArguments::none};
}

void add_reduction_decompositions(DecompositionTable& table) {
  table["mean"] = decompose_mean;
  table["sum"] = decompose_combination<sum>;
  table["nansum"] = decompose_combination<sum_of_numbers>;
  table["prod"] = decompose_combination<product>;
  table["equal"] = decompose_equal;
  table["var"] = decompose_variance</*kRoot=*/false, 1>;
  table["std"] = decompose_variance</*kRoot=*/true, 1>;
  table["var_mean"] = decompose_variance</*kRoot=*/false, 2>;
  table["std_mean"] = decompose_variance</*kRoot=*/true, 2>;
  table["norm"] = table["linalg_vector_norm"] = decompose_norm;
  table["logsumexp"] = decompose_logsumexp;
  table["argmax"] = decompose_argument</*kMaximum=*/true>;
  table["argmin"] = decompose_argument</*kMaximum=*/false>;
  table["_softmax"] = decompose_softmax</*kLogarithm=*/false>;
  table["_log_softmax"] = decompose_softmax</*kLogarithm=*/true>;
  table["_softmax_backward_data"] = decompose_softmax_backward</*kLogarithm=*/false>;
  table["_log_softmax_backward_data"] = decompose_softmax_backward</*kLogarithm=*/true>;
}

}  // namespace tutti
