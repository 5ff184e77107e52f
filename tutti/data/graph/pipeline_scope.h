#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "tutti/tensor/view.h"

namespace tutti::data::graph {

// The state in which dataset code, functions of map() among it, runs on every thread: no gradients, no inference mode
// (a cached tensor may later be trained on), no autocast and no strategy's scope, so that a pipeline gives the same
// with and without prefetch(). A mesh variable that a function touches is read in global view.
class PipelineScope {
  c10::InferenceMode no_inference_{false};
  at::NoGradGuard no_grad_;
  GlobalViewGuard global_view_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

}  // namespace tutti::data::graph
