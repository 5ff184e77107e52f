#pragma once

#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct FlattenOptions {
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Shapes: x [N, ...], result [N, product of the rest], in the order that channels last have. TF:
// tf.keras.layers.Flatten
class Flatten : public Layer {
 public:
  explicit Flatten(const FlattenOptions& options = {});
};

}  // namespace tutti::keras::layers
