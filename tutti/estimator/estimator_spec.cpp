#include "tutti/estimator/estimator_spec.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::estimator {

EstimatorSpec::EstimatorSpec(EstimatorSpecOptions options) : options_(std::move(options)) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, str("EstimatorSpec, mode ", to_string(options_.mode), ": ", what));
  };
  const bool predicts = options_.mode == ModeKeys::predict;
  if (options_.mode == ModeKeys::train && !options_.train_op)
    refuse("there is no train_op; minimize(loss, get_global_step()) of an optimizer makes one");
  if (!predicts && !options_.loss.defined()) refuse("there is no loss");
  if (predicts && options_.predictions.size() == 0) refuse("there are no predictions");
  for (const auto* hooks : {&options_.training_hooks, &options_.training_chief_hooks, &options_.evaluation_hooks,
                            &options_.prediction_hooks})
    if (std::ranges::find(*hooks, nullptr) != hooks->end()) refuse("a hook is a null pointer");
  if (predicts) check_export_outputs(options_.export_outputs);
  if (!options_.loss.defined() || predicts) return;
  if (options_.loss.numel() != 1)
    refuse(str("the loss has shape ", str_list(options_.loss.sizes()), "; it is one number, a mean or a sum"));
  if (options_.loss.dim() > 0) options_.loss = options_.loss.reshape({});
}

}  // namespace tutti::estimator
