#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct MixUpOptions {
  double alpha = 0.2;                 // of the distribution Beta(alpha, alpha) of the weights
  std::optional<uint64_t> seed = {};  // else the numbers follow set_random_seed
  std::string name = {};
};

// Mixes each image with another one of the batch, and their labels alike, while the model is trained. Inputs and
// outputs: images [batch, height, width, channels] and labels [batch, ...] of floating point, such as one-hot ones.
// Called on images alone it throws, as their labels would not be mixed. The batch is what it is called on, a replica's
// shard in a model; in Dataset::map it is the whole one. Outside of training: the inputs. TF: tf.keras.layers.MixUp
class MixUp : public Layer {
 public:
  // Throws: invalid_argument for options out of their range.
  explicit MixUp(const MixUpOptions& options = {});
};

}  // namespace tutti::keras::layers
