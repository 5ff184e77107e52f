// Convolutions: independent over the batch; output channels go with the kernels, input channels are summed over.
// Space stays whole.
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/arguments.h"
#include "tutti/tensor/rules/notation.h"
#include "tutti/tensor/rules/pieces.h"
#include "tutti/tensor/rules/rule_table.h"

namespace tutti {
namespace {

// Letters of the operands: n batch, c input channels, o output channels, 0 both where they are grouped.
struct ConvolutionLetters {
  std::string input, weight, bias, output;

  // `grouped`: the axes of channels are cut between groups, and each call has some of the groups.
  ConvolutionLetters(int64_t rank, bool transposed, int64_t groups, bool grouped) {
    const std::string space = letters(rank - 2, 'P');
    if (groups == 1) {
      input = "nc" + space;
      weight = (transposed ? "co" : "oc") + space;
      bias = "o";
      output = "no" + space;
    } else {
      input = output = (grouped ? "n0" : "nG") + space;
      weight = (grouped ? "0K" : "GK") + space;
      bias = grouped ? "0" : "G";
    }
  }
};

// Whether every layout of the channels, axis 1 of the images and axis 0 of the others, cuts them between groups.
bool cuts_between_groups(const Planner& p, int64_t groups, std::initializer_list<const Spec*> images,
                         std::initializer_list<const Spec*> others) {
  const auto divides = [&](int8_t dimension) {
    return dimension < 0 || groups % p.mesh().sizes[static_cast<size_t>(dimension)] == 0;
  };
  return std::all_of(images.begin(), images.end(), [&](const Spec* image) { return divides(image->axes[1]); }) &&
         std::all_of(others.begin(), others.end(),
                     [&](const Spec* other) { return !other || divides(other->axes[0]); });
}

// Of a part of the input channels: the first part adds the bias, the others must not add it again.
void add_bias_once(const c10::OperatorHandle& op, torch::jit::Stack& call, const AxisPiece& channels) {
  if (channels.begin > 0) call[2] = at::IValue();
  op.callBoxed(call);
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups) -> output
bool convolution(Planner& p) {
  const Spec* weight = p.spec(1);
  if (p.spec(0)->rank() < 2 || weight->rank() < 2) throw NoShardedForm();
  if (weight->numel == 0) return false;  // LibTorch's result has sizes of its own then
  const int64_t groups = p.integer(8);
  const bool grouped = groups > 1 && cuts_between_groups(p, groups, {p.spec(0)}, {p.spec(1), p.spec(2)});
  const ConvolutionLetters l(p.spec(0)->rank(), p.boolean(6), groups, grouped);
  std::vector<Term> terms{{0, l.input}, {1, l.weight}, {2, l.bias}};
  std::vector<std::string> results{l.output};
  whole_where_empty(p, "co", terms, results);
  const AxisMap axes = shard(p, terms, results)[0];
  if (grouped) {
    p.local_size(8, axes[1], groups);
    p.result_size(0, 1, p.boolean(6) ? weight->sizes[1] * groups : weight->sizes[0]);
  }
  if (p.parts_of_first_result()) p.local_call(add_bias_once, 0, 1);
  return true;
}

// convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
// mask) -> (grad_input, grad_weight, grad_bias)
bool convolution_backward(Planner& p) {
  const int64_t groups = p.integer(9);
  const bool grouped = groups > 1 && cuts_between_groups(p, groups, {p.spec(0), p.spec(1)}, {p.spec(2)});
  const ConvolutionLetters l(p.spec(1)->rank(), p.boolean(7), groups, grouped);
  std::vector<Term> terms{{0, l.output}, {1, l.input}, {2, l.weight}};
  std::vector<std::string> results{l.input, l.weight};
  whole_where_empty(p, "co", terms, results);
  shard(p, terms, results);
  const int8_t batch = p.axes_of(0)[0], channels = p.axes_of(0)[1];
  // The bias knows no input channels.
  p.result({channels}, {p.spec(0)->sizes[1]}, batch < 0 ? 0 : DimensionMask{1} << batch);
  if (grouped) {
    p.local_size(9, channels, groups);
    p.result_size(0, 1, p.spec(1)->sizes[1]);
    p.result_size(1, 0, p.spec(2)->sizes[0]);
  }
  if (!p.is_none(3)) p.local_sizes(3, {channels}, p.integers(3));
  return true;
}

// Of float16 or bfloat16, over sharded input channels: LibTorch's kernels add those in float32. The first nine
// arguments are those above.
template <const char* kName>
Results in_sum_types(at::ArrayRef<at::IValue> a) {
  const Tensor &input = a[0].toTensor(), &weight = a[1].toTensor(), bias = tensor_or_none(a[2]);
  const at::ScalarType type = input.scalar_type();
  const auto is_of_type = [&](const Tensor& other) { return !other.defined() || other.scalar_type() == type; };
  const bool is_transposed = a[6].toBool();
  if (sum_type(type) == type || !is_of_type(weight) || !is_of_type(bias) || a[8].toInt() != 1 || input.dim() < 2 ||
      weight.dim() < 2 || input.numel() == 0 || weight.numel() == 0 ||
      (!is_sharded(input, {1}) && !is_sharded(weight, {is_transposed ? 0 : 1})))
    return {};
  std::vector<at::IValue> arguments(a.begin(), a.end());
  for (size_t i = 0; i < 2; ++i) arguments[i] = in_sum_type(arguments[i].toTensor());
  if (bias.defined()) arguments[2] = in_sum_type(bias);
  return {{in_type(call(kName, "", std::move(arguments))[0].toTensor(), type)}};
}
constexpr char kConvolution[] = "aten::convolution", kInnerConvolution[] = "aten::_convolution";

}  // namespace

void add_convolution_decompositions(DecompositionTable& table) {
  table["convolution"] = in_sum_types<kConvolution>;
  table["_convolution"] = in_sum_types<kInnerConvolution>;
}

void add_convolution_rules(RuleTable& table) {
  table["convolution"] = table["_convolution"] = {convolution, SizeArguments::rewritten};
  table["convolution_backward"] = {convolution_backward, SizeArguments::rewritten};
}

}  // namespace tutti
