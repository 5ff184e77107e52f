#pragma once

#include <string>
#include <vector>

#include "tutti/keras/layers/data_format.h"
#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

// Random numbers come from LibTorch's default generator, of which each replica has one of its own (see
// set_random_seed).

struct DropoutOptions {
  double rate = 0;  // share of the elements that become zero, in [0, 1]
  // Of the random mask, which is repeated along axes of 1; kUnknown is the input's extent, {} its shape.
  Shape noise_shape = {};
  std::string name = {};
};

// In training, zeroes elements at random and scales the others by 1 / (1 - rate); else x itself.
// TF: tf.keras.layers.Dropout
class Dropout : public Layer {
 public:
  explicit Dropout(const DropoutOptions& options);
};

struct SpatialDropoutOptions {
  double rate = 0;
  DataFormat data_format = DataFormat::channels_last;
  std::string name = {};
};

// Dropout of whole channels. Shapes: any with as many spatial axes, kept.
// TF: tf.keras.layers.SpatialDropout1D, SpatialDropout2D, SpatialDropout3D
template <size_t Rank>
class SpatialDropout : public Layer {
 public:
  explicit SpatialDropout(const SpatialDropoutOptions& options);
};

using SpatialDropout1D = SpatialDropout<1>;
using SpatialDropout2D = SpatialDropout<2>;
using SpatialDropout3D = SpatialDropout<3>;

struct AlphaDropoutOptions {
  double rate = 0;         // in [0, 1)
  Shape noise_shape = {};  // as of Dropout
  std::string name = {};
};

// Dropout for selu: in training, elements become selu's lowest value at random, and all are then scaled and shifted so
// that mean 0 and variance 1 stay. TF: tf.keras.layers.AlphaDropout
class AlphaDropout : public Layer {
 public:
  explicit AlphaDropout(const AlphaDropoutOptions& options);
};

struct GaussianDropoutOptions {
  double rate = 0;  // in [0, 1)
  std::string name = {};
};

// In training, multiplies by normal noise of mean 1 and variance rate / (1 - rate), which is that of dropout.
// TF: tf.keras.layers.GaussianDropout
class GaussianDropout : public Layer {
 public:
  explicit GaussianDropout(const GaussianDropoutOptions& options);
};

struct GaussianNoiseOptions {
  double stddev = 0;  // in [0, 1], as Keras has it
  std::string name = {};
};

// In training, adds normal noise of mean 0. TF: tf.keras.layers.GaussianNoise
class GaussianNoise : public Layer {
 public:
  explicit GaussianNoise(const GaussianNoiseOptions& options);
};

}  // namespace tutti::keras::layers
