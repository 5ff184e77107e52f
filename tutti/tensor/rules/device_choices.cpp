#include "tutti/tensor/rules/device_choices.h"

#include <ATen/ops/_scaled_dot_product_attention_math.h>

#include <algorithm>
#include <string_view>

#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

constexpr std::string_view kAcceptable = "aten::cudnn_is_acceptable", kAttention = "aten::scaled_dot_product_attention";

bool is_divided(const at::IValue& value) {
  return value.isTensor() && is_mesh_tensor(value.toTensor()) && !mesh_impl(value.toTensor()).whole();
}

}  // namespace

bool chooses_by_device(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  return name == kAcceptable || name == kAttention;
}

bool choose_for_mesh(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  const auto arguments = torch::jit::last(stack, count);
  if (op.schema().name() == kAcceptable) {  // where it is, LibTorch moves a module's weights into one buffer
    torch::jit::drop(stack, count);
    stack.emplace_back(false);
    return true;
  }
  if (std::none_of(arguments.begin(), arguments.end(), is_divided)) return false;
  if (arguments[0].toTensor().is_cpu()) return false;
  const at::Tensor result = std::get<0>(at::_scaled_dot_product_attention_math(
      arguments[0].toTensor(), arguments[1].toTensor(), arguments[2].toTensor(), arguments[3].toOptional<at::Tensor>(),
      arguments[4].toDouble(), arguments[5].toBool(), /*dropout_mask=*/{}, arguments[6].toOptional<double>(),
      arguments[7].toBool()));
  torch::jit::drop(stack, count);
  stack.emplace_back(result);
  return true;
}

}  // namespace tutti
