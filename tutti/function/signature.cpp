#include "tutti/function/signature.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>

#include <tuple>

#include "tutti/collectives/processes.h"
#include "tutti/core/str.h"
#include "tutti/device/gpu.h"
#include "tutti/tensor/view.h"

namespace tutti {

namespace {

// Whether casts are on for this kind of device, and to what.
int autocast_of(c10::DeviceType type) {
  return at::autocast::is_autocast_enabled(type) * 64 + static_cast<int>(at::autocast::get_autocast_dtype(type));
}

// Of GPUs, and which of them is the current one.
int64_t gpu_modes() {
  static const bool any = num_gpus() > 0;
  if (!any) return 0;
  static const bool casts = at::autocast::is_autocast_available(gpu_device(0).type());
  return current_gpu() * 128 + (casts ? autocast_of(gpu_device(0).type()) : 0);
}

}  // namespace

int64_t modes_now() {
  int64_t modes = at::GradMode::is_enabled();
  modes = modes * 2 + c10::InferenceMode::is_enabled();
  modes = modes * 2 + at::globalContext().deterministicAlgorithms();
  const ThreadView& view = ThreadView::current();
  modes = modes * 2 + (view.generator && view.replica < 0);  // that of an element of a seeded map
  modes = modes * 2 + (at::get_num_threads() > 1);           // then a recording knows which calls had one thread alone
  modes = modes * 64 + static_cast<int>(c10::get_default_dtype_as_scalartype());
  modes = modes * 128 + autocast_of(c10::kCPU);
  modes = modes * 256 + Processes::num_regroupings() % 256;  // of whose number a mean is
  return modes * 1024 * 128 + gpu_modes();
}

Signature::Parts Signature::Parts::of(const FlatArguments& parts, const TakenApart& tensors) {
  Parts signature{parts.form, {}, tensors.values, parts.values};
  for (const Tensor& tensor : tensors.plain) {
    TensorPart part;
    if (tensor.defined()) {
      part.geometry = geometry_of(tensor);
      part.geometry->offset = 0;
      part.device = tensor.device();
      part.requires_grad = tensor.requires_grad();
      part.is_leaf = !part.requires_grad || tensor.is_leaf();
    }
    signature.tensors.push_back(std::move(part));
  }
  return signature;
}

Signature Signature::of(std::type_index types, const FlatArguments& arguments, const TakenApart& tensors,
                        int64_t depends_on) {
  const ThreadView& view = ThreadView::current();
  Signature signature{types, Parts::of(arguments, tensors), {}, depends_on, modes_now(), view.replica, view.mesh};
  if (arguments.iterators.empty()) signature.elements.emplace();
  return signature;
}

bool Signature::is_of_call_like(const Signature& other) const {
  const auto all = [](const Signature& s) {
    return std::tie(s.types, s.arguments, s.depends_on, s.modes, s.replica, s.mesh);
  };
  return all(*this) == all(other);
}

std::string Signature::to_string() const {
  std::string text = "(";
  const auto separate = [&] { return text.size() > 1 && !text.ends_with(": ") ? ", " : ""; };
  const auto add = [&](const Parts& parts) {
    for (const TensorPart& part : parts.tensors)
      text += str(separate(), part.geometry ? tutti::to_string(*part.geometry) : "none",
                  part.device.is_cpu() ? "" : tutti::str(" on ", part.device),
                  part.requires_grad ? " that requires a gradient" : "");
    for (const ArgumentValue& value : parts.values) text += str(separate(), value.to_string());
  };
  add(arguments);
  if (elements)
    for (const Taken& taken : *elements) {
      text += text.size() > 1 ? "; next: " : "next: ";
      add(taken.parts);
    }
  return text + ")";
}

}  // namespace tutti
