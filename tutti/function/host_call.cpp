#include "tutti/function/host_call.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <string>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/outer_recorder.h"

namespace tutti::function_internal {
namespace {

std::string kind_of(const Tensor& tensor) {
  return tensor.defined() ? tutti::str(at::toString(tensor.scalar_type()), ' ', tensor.sizes()) : "no tensor";
}

void take_result(const Tensor& returned, Tensor into) {
  if (!returned.defined() || returned.sizes() != into.sizes() || returned.scalar_type() != into.scalar_type())
    throw Error(ErrorCode::invalid_argument, str("host_call: the function returned ", kind_of(returned),
                                                 ", and its HostResult says ", kind_of(into)));
  into.copy_(returned);
}

std::vector<Tensor> detached(at::ArrayRef<Tensor> inputs) {
  std::vector<Tensor> values;
  for (const Tensor& input : inputs) {
    if (!input.defined()) throw Error(ErrorCode::invalid_argument, "host_call: an input is an undefined tensor");
    values.push_back(input.detach());
  }
  return values;
}

void refuse_export() {
  if (!OuterRecorder::current()) return;
  throw Error(ErrorCode::failed_precondition,
              "saved_model: host_call calls C++ of this program, which cannot be saved; leave it out of the "
              "signature's function");
}

}  // namespace

Tensor host_call(at::ArrayRef<Tensor> inputs, const HostResult& result, HostFunction f) {
  refuse_export();
  std::vector<Tensor> tensors = detached(inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (at::GradMode::is_enabled() && inputs[i].requires_grad())
      throw Error(ErrorCode::invalid_argument, str("host_call: no gradient goes through the function, and input ", i,
                                                   " needs one; give its detach()"));
  const Tensor made = at::empty(result.shape, result.dtype);
  tensors.push_back(made);
  host_step("host_call", tensors, {made}, [f = std::move(f)](at::ArrayRef<Tensor> now) {
    const at::NoGradGuard no_grad;
    take_result(f(now.slice(0, now.size() - 1)), now.back());
  });
  return made;
}

void host_call(at::ArrayRef<Tensor> inputs, HostFunction f) {
  refuse_export();
  host_step("host_call", detached(inputs), {}, [f = std::move(f)](at::ArrayRef<Tensor> now) {
    const at::NoGradGuard no_grad;
    f(now);
  });
}

}  // namespace tutti::function_internal
