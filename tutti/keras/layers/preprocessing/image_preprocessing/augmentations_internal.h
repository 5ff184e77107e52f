#pragma once

#include <functional>
#include <vector>

#include "tutti/keras/layers/preprocessing/image_preprocessing/affine_transform.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fraction_range.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_draws_internal.h"

namespace tutti::keras::layers {

struct AugmentationOptions {
  FactorRange value_range = {0.0, 255.0};
  FractionRange factor = {};  // of each
  Interpolation interpolation = Interpolation::bilinear;
};

// A change of images [batch, height, width, channels] in floating point, with numbers drawn for it.
using Augmentation = std::function<Tensor(const Tensor& images, RandomDraws& draws)>;

constexpr int64_t kNumWithoutColors = 7;  // the first ones
constexpr int64_t kNumAugmentations = 11;

// What RandAugment and AugMix choose from.
std::vector<Augmentation> augmentations(const AugmentationOptions& options);

}  // namespace tutti::keras::layers
