#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"

namespace tutti::keras::layers {

struct CutMixOptions {
  FractionRange factor = 1.0;         // of the distribution Beta(f, f) of the parts that images keep; one for a batch
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Puts a rectangle of another image of the batch into each image, and mixes their labels by its area, while the model
// is trained. Inputs and outputs: images [batch, height, width, channels] and labels [batch, ...] of floating point,
// such as one-hot ones. Called on images alone it throws, as their labels would not be mixed. The batch is what it is
// called on, a replica's shard in a model; in Dataset::map it is the whole one. Outside of training: the inputs. TF:
// tf.keras.layers.CutMix
class CutMix : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit CutMix(const CutMixOptions& options = {});
};

}  // namespace tutti::keras::layers
