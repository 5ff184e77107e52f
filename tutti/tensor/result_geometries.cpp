#include "tutti/tensor/result_geometries.h"

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/operator_info.h"
#include "tutti/tensor/rules/kernel_strides.h"
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

// What an op on elements gives: LibTorch's iterator knows it of any. Results of several are alike.
torch::jit::Stack results_of_elements(at::ArrayRef<at::IValue> arguments, size_t count) {
  const auto options = at::TensorOptions(at::kFloat).device(at::kMeta);
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).declare_static_dtype_and_device(at::kFloat,
                                                                                                  at::kMeta);
  config.add_owned_output(at::Tensor());
  for (const at::IValue& value : arguments)
    if (value.isTensor() && value.toTensor().defined())
      config.add_owned_const_input(at::empty_strided(value.toTensor().sizes(), value.toTensor().strides(), options));
  return torch::jit::Stack(count, config.build().output());
}

// The type that the operands of a call have together. A factor, as `alpha` of add, is none.
at::ScalarType promoted_type(const c10::FunctionSchema& schema, at::ArrayRef<at::IValue> arguments) {
  at::native::ResultTypeState types{};
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (schema.arguments()[i].kwarg_only()) continue;
    const at::IValue& value = arguments[i];
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
  const NotRecorded no_call_of_the_program;
  try {
    if (auto results = results_of_kernel(info.name, arguments)) return *std::move(results);
    torch::jit::Stack results = check_sizes(op, arguments);
    if (info.rule != pointwise) return results;
    torch::jit::Stack cast(arguments.begin(), arguments.end());
    if (results.empty()) {  // as of logical_xor, which LibTorch computes on a device alone
      cast_operands(promoted_type(op.schema(), arguments), cast);
      return results_of_elements(cast, op.schema().returns().size());
    }
    if (results.size() != 1 || !results[0].isTensor() || !results[0].toTensor().defined()) return results;
    const at::ScalarType type = results[0].toTensor().scalar_type();  // truth values are found in that of the operands
    return cast_operands(type == at::kBool ? promoted_type(op.schema(), arguments) : type, cast) ? check_sizes(op, cast)
                                                                                                 : results;
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
    if (tensor.defined() && tensor.layout() == at::kStrided)
      geometry = {at::DimVector(tensor.sizes()), at::DimVector(tensor.strides())};
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
