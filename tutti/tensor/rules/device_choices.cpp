#include "tutti/tensor/rules/device_choices.h"

#include <ATen/ops/_scaled_dot_product_attention_math.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti {
namespace {

constexpr std::string_view kAcceptable = "aten::cudnn_is_acceptable", kAttention = "aten::scaled_dot_product_attention";

bool is_divided(const at::IValue& value) {
  return value.isTensor() && is_mesh_tensor(value.toTensor()) && !mesh_impl(value.toTensor()).whole();
}

constexpr double kNever = -std::numeric_limits<double>::infinity();  // as a weight's logarithm

// What is added to the weights' logarithms where a query sees no key behind its own place. Each device makes its own:
// LibTorch would make it on one, and that would move.
Tensor causal_mask(const Tensor& query, const Tensor& key, const MeshShape* shape) {
  const GlobalViewGuard outside_of_scopes;
  const at::DimVector sizes{query.size(-2), key.size(-2)};
  const Spec* const spec = intern_replicated(shape, sizes);
  Components masks;
  for (int i = 0; i < spec->num_components; ++i)
    masks.push_back(
        spec->is_here(i)
            ? at::full(sizes, kNever, query.options().device(spec->device_of(i)).requires_grad(false)).triu_(1)
            : Tensor());
  return make_mesh_tensor(spec, std::move(masks));
}

// The same for a mask that says which keys a query sees.
Tensor added_mask(const Tensor& mask, const Tensor& query) {
  return mask.scalar_type() == at::kBool ? mask.to(query.scalar_type()).log() : mask;
}

// scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa)
Tensor attention_by_products(at::ArrayRef<at::IValue> a) {
  const Tensor &query = a[0].toTensor(), &key = a[1].toTensor();
  auto mask = a[3].toOptional<Tensor>();
  bool is_causal = a[5].toBool();
  if (mask) {
    mask = added_mask(*mask, query);  // together with is_causal LibTorch refuses it
  } else if (is_causal && query.dim() >= 2 && key.dim() >= 2) {
    mask = causal_mask(query, key, mesh_impl(std::find_if(a.begin(), a.end(), is_divided)->toTensor()).mesh_shape());
    is_causal = false;
  }
  return std::get<0>(at::_scaled_dot_product_attention_math(query, key, a[2].toTensor(), mask, a[4].toDouble(),
                                                            is_causal, /*dropout_mask=*/{}, a[6].toOptional<double>(),
                                                            a[7].toBool()));
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
  const Tensor result = attention_by_products(arguments);
  torch::jit::drop(stack, count);
  stack.emplace_back(result);
  return true;
}

}  // namespace tutti
