#pragma once

#include "tutti/data/input_context.h"
#include "tutti/keras/batches.h"

namespace tutti::keras {

// For Model::fit under a ParameterServerStrategy: make(InputContext) returns the Dataset of each worker's own pipeline,
// whose every element is a batch that the worker divides among its replicas. It is called where the pipeline is read,
// anew for each pass; evaluate and predict read the first of one pipeline. TF:
// tf.keras.utils.experimental.DatasetCreator.
template <class F>
Batches DatasetCreator(F make) {
  return Batches::of_pipelines(
      [make = std::move(make)](const data::InputContext& context) { return Batches(make(context)); });
}

}  // namespace tutti::keras
