#pragma once

#include <vector>

#include "tutti/keras/fit_options.h"
#include "tutti/keras/model.h"

// The loops behind Model::fit, evaluate and predict: passes over the data, the callbacks, what is printed.
namespace tutti::keras::training_loops {

History fit(const Model& model, const Batches& batches, const FitOptions& options);
Logs evaluate(const Model& model, const Batches& batches, const EvaluateOptions& options);
// The outputs for all samples, one tensor for each output of the model.
std::vector<Tensor> predict(const Model& model, const Batches& batches, const PredictOptions& options);

// One step on one global batch; `function` is named in errors.
Logs on_batch(const Model& model, const Batch& batch, const char* function, ModelImpl::Step step);

}  // namespace tutti::keras::training_loops
