#include "tutti/function/native_losses.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_sigmoid_forward.h>

#include "tutti/function/pointwise_kernel.h"

namespace tutti {
namespace {

using Stack = torch::jit::Stack;

constexpr int64_t kFewLogits = 4096;  // more take LibTorch's threads, and its calls are little of their time

bool is_plain(const at::Tensor& tensor) {
  return lies_plainly(tensor, at::kFloat) && tensor.numel() > 0 && tensor.numel() <= kFewLogits;
}

bool is_none(const at::IValue& weight) { return weight.isNone() || !weight.toTensor().defined(); }

// (self, target, weight, pos_weight, reduction, out)
class CrossEntropyOfLogits {
 public:
  explicit CrossEntropyOfLogits(const at::Tensor& self)
      : log_sigmoid_(at::empty(self.sizes())), buffer_(at::empty(self.sizes())) {}

  void operator()(const Stack& arguments) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor &self = arguments[0].toTensor(), &target = arguments[1].toTensor();
    at::log_sigmoid_forward_out(log_sigmoid_, buffer_, self);
    const auto* const x = self.const_data_ptr<float>();
    auto* const losses = arguments.back().toTensor().mutable_data_ptr<float>();
    const int64_t count = self.numel();
    compute_pointwise(Pointwise::subtract_from, losses, target.const_data_ptr<float>(), nullptr, count, {.number = 1});
    compute_pointwise(Pointwise::multiply, losses, losses, x, count, {});
    compute_pointwise(Pointwise::subtract, losses, losses, log_sigmoid_.const_data_ptr<float>(), count, {});
  }

 private:
  at::Tensor log_sigmoid_, buffer_;
};

}  // namespace

NativeKernel native_losses_of(const std::string& op, const Stack& arguments) {
  if (op != "aten::binary_cross_entropy_with_logits" || !has_fused_multiply_add()) return nullptr;
  const at::Tensor &self = arguments[0].toTensor(), &target = arguments[1].toTensor();
  if (!is_plain(self) || !is_plain(target) || self.sizes() != target.sizes()) return nullptr;
  if (!is_none(arguments[2]) || !is_none(arguments[3]) || arguments[4].toInt() != at::Reduction::None) return nullptr;
  return CrossEntropyOfLogits(self);
}

}  // namespace tutti
