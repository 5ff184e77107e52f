#include "tutti/function/signature.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include "tutti/core/str.h"
#include "tutti/tensor/view.h"

namespace tutti {

int modes_now() {
  int modes = at::GradMode::is_enabled();
  modes = modes * 2 + c10::InferenceMode::is_enabled();
  modes = modes * 2 + at::globalContext().deterministicAlgorithms();
  modes = modes * 2 + at::autocast::is_autocast_enabled(at::kCPU);
  const ThreadView& view = ThreadView::current();
  modes = modes * 2 + (view.generator && view.replica < 0);  // that of an element of a seeded map
  modes = modes * 2 + (at::get_num_threads() > 1);           // then a recording knows which calls had one thread alone
  modes = modes * 64 + static_cast<int>(c10::get_default_dtype_as_scalartype());
  return modes * 64 + static_cast<int>(at::autocast::get_autocast_dtype(at::kCPU));
}

Signature Signature::of(std::type_index types, const FlatArguments& arguments, const TakenApart& tensors,
                        int64_t depends_on) {
  const ThreadView& view = ThreadView::current();
  Signature signature{types,      arguments.form, {},           tensors.values, arguments.values,
                      depends_on, modes_now(),    view.replica, view.mesh};
  for (const Tensor& tensor : tensors.plain) {
    TensorPart part;
    if (tensor.defined()) {
      part.geometry = geometry_of(tensor);
      part.geometry->offset = 0;
      part.requires_grad = tensor.requires_grad();
      part.is_leaf = !part.requires_grad || tensor.is_leaf();
    }
    signature.tensors.push_back(std::move(part));
  }
  return signature;
}

std::string Signature::to_string() const {
  std::string text = "(";
  for (const TensorPart& part : tensors)
    text += str(text.size() > 1 ? ", " : "", part.geometry ? tutti::to_string(*part.geometry) : "none",
                part.requires_grad ? " that requires a gradient" : "");
  for (const ArgumentValue& value : values) text += str(text.size() > 1 ? ", " : "", value.to_string());
  return text + ")";
}

}  // namespace tutti
