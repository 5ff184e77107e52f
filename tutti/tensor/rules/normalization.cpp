// Normalizations. Over the batch (BatchNorm) the statistics are global; the others are independent over it.
#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/var_mean.h>

#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/arguments.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

using at::IValue;

// Letters of a layer norm's operands. A normalized axis is whole, unless the input is sharded there: that is decomposed
// in separate buffers, and free in one.
struct LayerNormLetters {
  std::string input, weight, statistics;
  LayerNormLetters(const Planner& p, const Spec* spec, at::IntArrayRef normalized_shape)
      : input(letters(spec->rank())) {
    const size_t normalized = normalized_shape.size();
    if (normalized > input.size()) throw NoShardedForm();
    const size_t lead = input.size() - normalized;
    if (at::IntArrayRef(spec->sizes).slice(lead) != normalized_shape) throw NoShardedForm();
    for (size_t axis = lead; axis < input.size(); ++axis)
      if (!p.mesh().merged() || spec->axes[axis] < 0) input = whole_at(input, {static_cast<int64_t>(axis)});
    weight = input.substr(lead);
    statistics = input.substr(0, lead) + std::string(normalized, 'Z');
  }
};

// native_layer_norm(input, normalized_shape, weight, bias, eps) -> (output, mean, rstd)
bool layer_norm(Planner& p) {
  const LayerNormLetters l(p, p.spec(0), p.integers(1));
  shard(p, {{0, l.input}, {2, l.weight}, {3, l.weight}}, {l.input, l.statistics, l.statistics});
  return true;
}

// native_layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight, bias, mask)
bool layer_norm_backward(Planner& p) {
  const LayerNormLetters l(p, p.spec(1), p.integers(2));
  shard(p, {{0, l.input}, {1, l.input}, {3, l.statistics}, {4, l.statistics}, {5, l.weight}, {6, l.weight}},
        {l.input, l.weight, l.weight});
  for (const int unasked : {0, 3, 4}) p.contiguous(unasked);  // the kernel takes them for that, and does not look
  return true;
}

// The last axes of a tensor that a layer norm reduces; the first are those it runs over.
struct NormalizedAxes {
  at::DimVector lead, last;
  NormalizedAxes(int64_t rank, const IValue& normalized_shape) {
    const auto first_normalized = rank - static_cast<int64_t>(normalized_shape.toDimVector().size());
    for (int64_t axis = 0; axis < rank; ++axis) (axis < first_normalized ? lead : last).push_back(axis);
  }
};

// The type of the statistics: that of the first defined one of `values`, weights and the like, else the input's.
at::ScalarType statistics_type(const Tensor& input, std::initializer_list<Tensor> values) {
  for (const Tensor& value : values)
    if (value.defined()) return value.scalar_type();
  return input.scalar_type();
}

// Whether a layer norm of this type takes these.
bool suits(at::ScalarType input, const Tensor& weight, const Tensor& bias) {
  const auto are = [&](at::ScalarType type) {
    const auto is = [&](const Tensor& value) { return !value.defined() || value.scalar_type() == type; };
    return is(weight) && is(bias);
  };
  return are(input) || (at::isReducedFloatingType(input) && are(at::kFloat));
}

Results decompose_layer_norm(at::ArrayRef<IValue> a) {
  const Tensor& given = a[0].toTensor();
  const NormalizedAxes axes(given.dim(), a[1]);
  const auto normalized = static_cast<int64_t>(axes.last.size());
  const bool fits = normalized > 0 && given.sizes().slice(axes.lead.size()) == at::IntArrayRef(a[1].toDimVector());
  const Tensor weight = tensor_or_none(a[2]), bias = tensor_or_none(a[3]);
  const bool are_taken = fits && !given.is_complex() && suits(given.scalar_type(), weight, bias);
  if (!are_taken || !is_sharded(given, axes.last)) return {};  // LibTorch says what it does not take
  const Tensor input = in_sum_type(given);
  const auto [variance, mean] = at::var_mean(input, at::OptionalIntArrayRef(axes.last), c10::Scalar(0), true);
  const Tensor inverse = at::rsqrt(variance.add(a[4].toDouble()));
  Tensor output = input.sub(mean).mul_(inverse);
  if (weight.defined()) output.mul_(weight);
  if (bias.defined()) output.add_(bias);
  if (count_of(input, axes.last) == 0) mean.zero_();  // as LibTorch has it
  const at::ScalarType statistics = statistics_type(given, {weight, bias});
  return {{in_type(output, given.scalar_type()).contiguous(), in_type(mean, statistics), in_type(inverse, statistics)}};
}

Results decompose_layer_norm_backward(at::ArrayRef<IValue> a) {
  const NormalizedAxes axes(a[1].toTensor().dim(), a[2]);
  if (!is_sharded(a[1].toTensor(), axes.last) && !is_sharded(a[0].toTensor(), axes.last)) return {};
  const Tensor gradient = in_sum_type(a[0].toTensor()), input = in_sum_type(a[1].toTensor());
  const Tensor mean = in_sum_type(a[3].toTensor()), inverse = in_sum_type(a[4].toTensor());
  const Tensor weight = tensor_or_none(a[5]), bias = tensor_or_none(a[6]);
  const Tensor normal = input.sub(mean).mul_(inverse);
  const Tensor scaled = weight.defined() ? gradient.mul(weight) : gradient;
  const double count = count_of(input, axes.last);
  const auto mask = a[7].toBoolList();
  Tensor input_gradient, weight_gradient, bias_gradient;
  if (mask[0])
    input_gradient = scaled.sub(at::sum(scaled, axes.last, true).div_(count))
                         .sub_(normal.mul(at::sum(scaled.mul(normal), axes.last, true).div_(count)))
                         .mul_(inverse)
                         .contiguous();
  const auto over_lead = [&](const Tensor& terms) { return axes.lead.empty() ? terms : at::sum(terms, axes.lead); };
  if (mask[1]) weight_gradient = over_lead(gradient.mul(normal));
  if (mask[2]) bias_gradient = over_lead(gradient);
  const at::ScalarType type = a[1].toTensor().scalar_type(),
                       of_weight = statistics_type(a[1].toTensor(), {weight, bias});
  return {{in_type(input_gradient, type), in_type(weight_gradient, of_weight), in_type(bias_gradient, of_weight)}};
}

// native_group_norm(input, weight, bias, N, C, HxW, groups, eps) -> (output, mean, rstd)
bool group_norm(Planner& p) {
  const Spec* input = p.spec(0);
  if (input->rank() < 1 || p.integer(3) != input->sizes[0]) throw NoShardedForm();
  const std::string all = "n" + letters(input->rank() - 1, 'A');
  const auto axes = shard(p, {{0, all}, {1, "A"}, {2, "A"}}, {all, "nZ", "nZ"});
  p.local_size(3, axes[0][0], input->sizes[0]);
  p.contiguous(0, /*channels_last=*/true);
  return true;
}

// native_group_norm_backward(grad, input, mean, rstd, weight, N, C, HxW, groups, mask)
bool group_norm_backward(Planner& p) {
  const Spec* input = p.spec(1);
  const std::string all = "n" + letters(input->rank() - 1, 'A');
  const auto axes = shard(p, {{0, all}, {1, all}, {2, "nZ"}, {3, "nZ"}, {4, "A"}}, {all, "A", "A"});
  p.local_size(5, axes[0][0], input->sizes[0]);
  p.contiguous(1, /*channels_last=*/true);
  return true;
}

// The operands and results of a batch norm that have one value per channel: from argument `first` to before `behind`,
// and two results, which the calls give terms of where they are `reduced`. Running statistics stay as they are.
void add_channel_values(Planner& p, const AxisMap& input, int first, int behind, bool are_reduced) {
  const AxisMap channel{input[1]};
  const at::DimVector size{p.spec(first - 1)->sizes[1]};
  for (int i = first; i < behind; ++i)
    if (p.spec(i)) p.operand(i, p.info().writes[static_cast<size_t>(i)] ? p.spec(i)->axes : channel);
  DimensionMask reduced = 0;
  for (const int8_t dimension : input)
    if (are_reduced && dimension >= 0 && dimension != input[1]) reduced |= DimensionMask{1} << dimension;
  p.result(channel, size, reduced);
  p.result(channel, size, reduced);
}

// native_batch_norm(input, weight, bias, running_mean, running_var, training, …) of merged buffers
// -> (output, mean, invstd)
bool batch_norm(Planner& p) {
  if (!p.mesh().merged() || p.spec(0)->rank() < 2) return false;
  const std::string all = letters(p.spec(0)->rank());
  add_channel_values(p, shard(p, {{0, all}}, {all})[0], 1, 5, /*are_reduced=*/p.boolean(5));
  return true;
}

// cudnn_batch_norm, with the same arguments -> (output, mean, invstd, reserve), of which the last is cuDNN's own affair
bool cudnn_batch_norm(Planner& p) {
  if (!batch_norm(p)) return false;
  p.result(1);
  return true;
}

// native_batch_norm_backward(grad, input, weight, running_mean, running_var, mean, invstd, …) of merged buffers
bool batch_norm_backward(Planner& p) {
  if (!p.mesh().merged()) return false;
  const std::string all = letters(p.spec(1)->rank());
  add_channel_values(p, shard(p, {{0, all}, {1, all}}, {all})[0], 2, p.num_arguments(), /*are_reduced=*/true);
  return true;
}

// cudnn_batch_norm_backward(input, grad, weight, running_mean, running_var, mean, invstd, epsilon, reserve) of merged
// buffers
bool cudnn_batch_norm_backward(Planner& p) {
  if (!p.mesh().merged()) return false;
  const std::string all = letters(p.spec(0)->rank());
  add_channel_values(p, shard(p, {{0, all}, {1, all}}, {all})[0], 2, 7, /*are_reduced=*/true);
  p.operand(8, unsharded(1));
  return true;
}

// The axes that a batch norm reduces, and a view of one value per channel against its input.
struct Channels {
  at::DimVector reduced, shape;
  double count = 1;
  explicit Channels(const Tensor& input) {
    for (int64_t axis = 0; axis < input.dim(); ++axis) {
      shape.push_back(axis == 1 ? input.size(1) : 1);
      if (axis == 1) continue;
      reduced.push_back(axis);
      count *= static_cast<double>(input.size(axis));
    }
  }
  Tensor spread(const Tensor& values) const { return values.view(shape); }
};

// Whether weights and statistics are what LibTorch's kernel takes: a number for each channel, all of the input's type,
// or all float32 beside a shorter one. Of others it says what is wrong, or has an answer of its own.
bool fit_channels(at::ArrayRef<IValue> values, const Tensor& input) {
  const at::ScalarType type = input.scalar_type();
  const auto all_are = [&](at::ScalarType wanted) {
    return std::all_of(values.begin(), values.end(), [&](const IValue& value) {
      const Tensor tensor = tensor_or_none(value);
      return !tensor.defined() || (tensor.scalar_type() == wanted && tensor.sizes() == input.sizes().slice(1, 1));
    });
  };
  return input.dim() >= 2 && (all_are(type) || (sum_type(type) != type && all_are(at::kFloat)));
}

Results decompose_batch_norm(at::ArrayRef<IValue> a) {
  const at::ScalarType type = a[0].toTensor().scalar_type();
  if (!at::isFloatingType(type) || !fit_channels(a.slice(1, 4), a[0].toTensor())) return {};
  const Tensor input = in_sum_type(a[0].toTensor());
  const Tensor weight = tensor_or_none(a[1]), bias = tensor_or_none(a[2]);
  Tensor running_mean = tensor_or_none(a[3]), running_variance = tensor_or_none(a[4]);
  const bool training = a[5].toBool();
  if (training && input.numel() == 0) return {};  // which LibTorch refuses
  const double momentum = a[6].toDouble(), epsilon = a[7].toDouble();
  const Channels channels(input);
  Tensor mean, inverse;
  if (training) {
    auto [variance, batch_mean] = at::var_mean(input, at::OptionalIntArrayRef(channels.reduced), c10::Scalar(0), false);
    mean = batch_mean;
    inverse = at::rsqrt(variance.add(epsilon));
    if (running_mean.defined()) running_mean.mul_(1 - momentum).add_(mean, momentum);
    if (running_variance.defined())
      running_variance.mul_(1 - momentum).add_(variance, momentum * channels.count / (channels.count - 1));
  } else {
    mean = running_mean;
    inverse = at::rsqrt(in_sum_type(running_variance).add(epsilon));
  }
  // Given statistics may be laid out otherwise than the input, which decides: they are subtracted in place.
  Tensor output = (training ? input.sub(channels.spread(mean)) : input.clone().sub_(channels.spread(mean)))
                      .mul_(channels.spread(inverse));
  if (weight.defined()) output.mul_(channels.spread(weight));
  if (bias.defined()) output.add_(channels.spread(bias));
  const at::ScalarType statistics = statistics_type(a[0].toTensor(), {weight, bias, running_mean, running_variance});
  output = in_type(output, type).contiguous(a[0].toTensor().suggest_memory_format());
  if (training) return std::vector<IValue>{output, in_type(mean, statistics), in_type(inverse, statistics)};
  return std::vector<IValue>{output, at::empty({0}, mean.options()), at::empty({0}, mean.options())};
}

Results decompose_batch_norm_backward(at::ArrayRef<IValue> a) {
  const at::ScalarType type = a[1].toTensor().scalar_type();
  if (!fit_channels(a.slice(2, 3), a[1].toTensor())) return {};
  const Tensor gradient = in_sum_type(a[0].toTensor()), input = in_sum_type(a[1].toTensor());
  const Tensor weight = tensor_or_none(a[2]);
  const bool training = a[7].toBool();
  const double epsilon = a[8].toDouble();
  const Channels channels(input);
  const Tensor mean = in_sum_type(a[training ? 5 : 3].toTensor());
  const Tensor inverse = training ? in_sum_type(a[6].toTensor()) : at::rsqrt(in_sum_type(a[4].toTensor()).add(epsilon));
  const Tensor normal = input.sub(channels.spread(mean)).mul_(channels.spread(inverse));
  const Tensor bias_gradient = at::sum(gradient, channels.reduced);
  const Tensor weight_gradient = at::sum(gradient.mul(normal), channels.reduced);
  const Tensor scale = weight.defined() ? weight.mul(inverse) : inverse;
  Tensor input_gradient = gradient;
  if (training)
    input_gradient = gradient.sub(channels.spread(bias_gradient.div(channels.count)))
                         .sub_(normal.mul(channels.spread(weight_gradient.div(channels.count))));
  input_gradient = input_gradient.mul(channels.spread(scale)).contiguous(a[1].toTensor().suggest_memory_format());
  const auto mask = a[9].toBoolList();
  const at::ScalarType of_weight = statistics_type(a[1].toTensor(), {weight});
  return std::vector<IValue>{mask[0] ? in_type(input_gradient, type) : Tensor(),
                             mask[1] ? in_type(weight_gradient, of_weight) : Tensor(),
                             mask[2] ? in_type(bias_gradient, of_weight) : Tensor()};
}

Results decompose_cudnn_batch_norm(at::ArrayRef<IValue> a) {
  auto results = decompose_batch_norm(a);
  if (results) results->emplace_back(at::empty({0}, a[0].toTensor().options().dtype(at::kByte)));
  return results;
}

Results decompose_cudnn_batch_norm_backward(at::ArrayRef<IValue> a) {
  const c10::List<bool> all_wanted({true, true, true});
  return decompose_batch_norm_backward(
      std::vector<IValue>{a[1], a[0], a[2], a[3], a[4], a[5], a[6], /*train=*/true, a[7], all_wanted});
}

}  // namespace

void add_normalization_rules(RuleTable& table) {
  table["native_layer_norm"] = {layer_norm, SizeArguments::unaffected};
  table["native_layer_norm_backward"] = {layer_norm_backward, SizeArguments::unaffected};
  table["native_group_norm"] = {group_norm, SizeArguments::rewritten};
  table["native_group_norm_backward"] = {group_norm_backward, SizeArguments::rewritten};
  table["native_batch_norm"] = {batch_norm, SizeArguments::none};
  table["cudnn_batch_norm"] = {cudnn_batch_norm, SizeArguments::none};
  table["cudnn_batch_norm_backward"] = {cudnn_batch_norm_backward, SizeArguments::none};
  table["native_batch_norm_backward"] = {batch_norm_backward, SizeArguments::none};
}

void add_normalization_decompositions(DecompositionTable& table) {
  table["native_layer_norm"] = decompose_layer_norm;
  table["native_layer_norm_backward"] = decompose_layer_norm_backward;
  table["native_batch_norm"] = decompose_batch_norm;
  table["cudnn_batch_norm"] = decompose_cudnn_batch_norm;
  table["cudnn_batch_norm_backward"] = decompose_cudnn_batch_norm_backward;
  table["native_batch_norm_backward"] = decompose_batch_norm_backward;
}

}  // namespace tutti
