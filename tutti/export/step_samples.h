#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/strings.h"
#include "tutti/export/value.h"
#include "tutti/keras/layers/preprocessing/step_recorder.h"

// What a function of text is tried with while it is recorded.
namespace tutti::saved_model {

// What the layer might give for inputs of these sizes.
Value sample_step(const keras::layers::PreprocessingOptions& layer,
                  const std::vector<keras::layers::TensorOrText>& inputs);

using Words = std::shared_ptr<const std::vector<std::string>>;

// Text that all of the layers take which read Examples, or else the last one does. `words` of an Example's features,
// of which those of any length have 1 to `most_values` values.
Strings sample_text(const std::vector<keras::layers::PreprocessingOptions>& layers, const std::vector<int64_t>& shape,
                    const std::map<std::string, Words>& words = {}, size_t most_values = 2);

}  // namespace tutti::saved_model
