#pragma once

#include <cstdint>
#include <string>

#include "tutti/keras/layers/layer.h"

namespace tutti::keras::layers {

struct SpectralNormalizationOptions {
  int64_t power_iterations = 1;  // in each call in training
  std::string name = {};
};

// A layer whose kernel, or embeddings, has about the largest singular value 1: each call in training first divides it
// by an estimate, which power iterations improve from call to call. The kernel itself is changed, and gradients are
// those of the changed one. In a function of a strategy all replicas change it alike. Weights: vector_u [1, the
// kernel's last extent], then the layer's. Shapes: as the layer's. Throws: invalid_argument for a layer with neither,
// and for power_iterations below 1. TF: tf.keras.layers.SpectralNormalization. Source: Miyato et al. 2018,
// arXiv:1802.05957.
class SpectralNormalization : public Layer {
 public:
  explicit SpectralNormalization(const Layer& layer, const SpectralNormalizationOptions& options = {});
};

}  // namespace tutti::keras::layers
