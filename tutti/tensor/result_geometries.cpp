#include "tutti/tensor/result_geometries.h"

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/op_traits.h"
#include "tutti/tensor/rules/rule_table.h"
#include "tutti/tensor/size_check.h"

namespace tutti {
namespace {

// The call that follows gives the warnings.
class NoWarnings : c10::WarningHandler {
 public:
  NoWarnings() : before_(c10::WarningUtils::get_warning_handler()) { c10::WarningUtils::set_warning_handler(this); }
  ~NoWarnings() override { c10::WarningUtils::set_warning_handler(before_); }
  NoWarnings(const NoWarnings&) = delete;
  NoWarnings& operator=(const NoWarnings&) = delete;

 private:
  void process(const c10::Warning&) override {}

  c10::WarningHandler* before_;
};

// What an op on elements gives: LibTorch's iterator knows it of any.
torch::jit::Stack result_of_elements(at::ArrayRef<at::IValue> arguments) {
  const auto options = at::TensorOptions(at::kFloat).device(at::kMeta);
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).declare_static_dtype_and_device(at::kFloat,
                                                                                                  at::kMeta);
  config.add_owned_output(at::Tensor());
  for (const at::IValue& value : arguments)
    if (value.isTensor() && value.toTensor().defined())
      config.add_owned_const_input(at::empty_strided(value.toTensor().sizes(), value.toTensor().strides(), options));
  return {config.build().output()};
}

at::Tensor without_memory(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(at::kMeta).dtype(tensor.dtype()));
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups): along lines and in
// planes the result has its channels last where the images or the weights have them so, in any kernel. A line is a
// plane of one row. In space it depends on the kernel, and of complex numbers there are several.
torch::jit::Stack result_of_convolution(at::ArrayRef<at::IValue> arguments) {
  at::Tensor images = without_memory(arguments[0].toTensor()), weight = without_memory(arguments[1].toTensor());
  const auto space = static_cast<size_t>(images.dim() - 2);
  std::array<std::vector<int64_t>, 4> lists;  // stride, padding, dilation, output_padding
  for (size_t i = 0; i < lists.size(); ++i) {
    lists[i] = arguments[std::array{3, 4, 5, 7}[i]].toIntVector();
    if (lists[i].size() == 1) lists[i].resize(space, lists[i][0]);  // one for all
  }
  const auto names_all = [&](const std::vector<int64_t>& list) { return list.size() == space; };
  if (space < 1 || space > 2 || images.is_complex() || !std::all_of(lists.begin(), lists.end(), names_all)) return {};
  const auto& [stride, padding, dilation, output_padding] = lists;
  at::DimVector sizes(arguments[6].toBool()
                          ? at::native::conv_input_size(images.sizes(), weight.sizes(), padding, output_padding, stride,
                                                        dilation, arguments[8].toInt())
                          : at::native::conv_output_size(images.sizes(), weight.sizes(), padding, stride, dilation));
  const bool is_line = space == 1;
  if (is_line) {
    images = images.contiguous().unsqueeze(2);
    weight = weight.unsqueeze(2);
    sizes.insert(sizes.begin() + 2, 1);
  }
  const auto has_channels_last = [](const at::Tensor& tensor) {
    return tensor.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  };
  const at::Tensor result =
      at::empty(sizes, images.options(),
                has_channels_last(images) || has_channels_last(weight) ? at::MemoryFormat::ChannelsLast
                                                                       : at::MemoryFormat::Contiguous);
  return {is_line ? result.squeeze(2) : result};
}

// The type in which an op on elements computes: that of its result, or what truth values are found in.
at::ScalarType computed_type(at::ArrayRef<at::IValue> arguments, const Tensor& result) {
  if (result.scalar_type() != at::kBool) return result.scalar_type();
  at::native::ResultTypeState types{};
  for (const at::IValue& value : arguments) {
    if (value.isTensor() && value.toTensor().defined())
      types = at::native::update_result_type_state(value.toTensor(), types);
    if (value.isScalar()) types = at::native::update_result_type_state(value.toScalar(), types);
  }
  return at::native::result_type(types);
}

// Operands of other types are cast first, which gives those that leave gaps or repeat elements other strides. Returns
// whether there are any.
bool cast_operands(at::ScalarType type, torch::jit::Stack& arguments) {
  bool any = false;
  for (at::IValue& value : arguments) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const Tensor& tensor = value.toTensor();
    if (tensor.scalar_type() == type || tensor.is_non_overlapping_and_dense()) continue;
    value = without_memory(tensor).to(type);
    any = true;
  }
  return any;
}

torch::jit::Stack results_without_memory(const c10::OperatorHandle& op, const OperatorInfo& info,
                                         at::ArrayRef<at::IValue> arguments) {
  const NoWarnings silent;
  try {
    if (info.name == "aten::convolution" || info.name == "aten::_convolution") return result_of_convolution(arguments);
    if (info.name == "aten::angle" && arguments[0].toTensor().is_complex())  // computed in row-major memory
      return {at::empty(arguments[0].toTensor().sizes(), at::kMeta)};
    torch::jit::Stack results = check_sizes(op, arguments);
    if (info.rule != pointwise) return results;
    if (results.empty()) return result_of_elements(arguments);
    torch::jit::Stack cast(arguments.begin(), arguments.end());
    const bool is_one_tensor = results.size() == 1 && results[0].isTensor() && results[0].toTensor().defined();
    if (is_one_tensor && cast_operands(computed_type(arguments, results[0].toTensor()), cast))
      return check_sizes(op, cast);
    return results;
  } catch (const std::exception&) {
    if ((info.is_view && !names_strides(info.name)) || info.decomposition) throw;
    return {};
  }
}

}  // namespace

ResultGeometries::ResultGeometries(const c10::OperatorHandle& op, const OperatorInfo& info,
                                   at::ArrayRef<at::IValue> arguments) {
  const auto is_new = [](int8_t argument) { return argument < 0; };
  if (info.draws || chooses_strides(info.name) ||
      std::none_of(info.written_return.begin(), info.written_return.end(), is_new))
    return;
  const auto add = [](std::vector<Geometry>& items, const at::Tensor& tensor) {
    Geometry geometry;
    if (tensor.defined()) geometry = {at::DimVector(tensor.sizes()), at::DimVector(tensor.strides())};
    items.push_back(std::move(geometry));
  };
  for (const at::IValue& value : results_without_memory(op, info, arguments)) {
    auto& items = results_.emplace_back();
    if (value.isTensor()) add(items, value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) add(items, tensor);
  }
}

at::OptionalIntArrayRef ResultGeometries::strides(size_t result, int item, at::IntArrayRef sizes) const {
  if (result >= results_.size()) return {};
  const auto& items = results_[result];
  const auto position = static_cast<size_t>(std::max(item, 0));
  if (position >= items.size() || items[position].sizes != sizes) return {};
  return items[position].strides;
}

}  // namespace tutti
