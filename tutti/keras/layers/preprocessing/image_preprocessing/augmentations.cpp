#include <algorithm>
#include <memory>

#include "tutti/keras/layers/preprocessing/image_preprocessing/augmentations_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/auto_contrast.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/equalization.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_brightness.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_color_degeneration.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_contrast.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_posterization.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_rotation.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_sharpness.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_shear.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_translation.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/solarization.h"

namespace tutti::keras::layers {
namespace {

Augmentation augmentation(const Layer& layer) {
  if (const auto random = std::dynamic_pointer_cast<RandomImageLayerImpl>(layer.impl()))
    return [random](const Tensor& images, RandomDraws& draws) { return random->transform_at_random(images, draws); };
  return [layer](const Tensor& images, RandomDraws&) { return layer(images, {.training = true}); };
}

}  // namespace

std::vector<Augmentation> augmentations(const AugmentationOptions& options) {
  const auto& [range, fractions, interpolation] = options;
  const FactorRange factor = fractions;
  const auto bits = std::max<int64_t>(1, static_cast<int64_t>(8 * factor.upper));
  std::vector<Augmentation> all;
  for (const Layer& layer : std::initializer_list<Layer>{
           RandomShear({.x_factor = factor, .y_factor = factor, .interpolation = interpolation}),
           RandomTranslation({.height_factor = factor, .width_factor = factor, .interpolation = interpolation}),
           RandomRotation({.factor = factor, .interpolation = interpolation}),
           RandomPosterization({.factor = bits, .value_range = range}),
           Solarization({.addition_factor = fractions, .threshold_factor = fractions, .value_range = range}),
           AutoContrast({.value_range = range}), Equalization({.value_range = range}),
           RandomBrightness({.factor = factor, .value_range = range}),
           RandomColorDegeneration({.factor = factor, .value_range = range}),
           RandomContrast({.factor = factor, .value_range = range}),
           RandomSharpness({.factor = fractions, .value_range = range})})
    all.push_back(augmentation(layer));
  return all;
}

}  // namespace tutti::keras::layers
