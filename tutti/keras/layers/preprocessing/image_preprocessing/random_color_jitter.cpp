#include "tutti/keras/layers/preprocessing/image_preprocessing/random_color_jitter.h"

#include <memory>
#include <vector>

#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_brightness.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_contrast.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_hue.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_saturation.h"

namespace tutti::keras::layers {
namespace {

class RandomColorJitterImpl : public RandomImageLayerImpl {
 public:
  explicit RandomColorJitterImpl(const RandomColorJitterOptions& options)
      : RandomImageLayerImpl("RandomColorJitter", options.name, options.data_format, options.seed), options_(options) {
    const auto add = [this](const Layer& layer) {
      changes_.push_back(std::dynamic_pointer_cast<RandomImageLayerImpl>(layer.impl()));
    };
    const auto& [range, brightness, contrast, saturation, hue, seed, data_format, name] = options;
    if (brightness) add(RandomBrightness({.factor = *brightness, .value_range = range}));
    if (contrast) add(RandomContrast({.factor = *contrast, .value_range = range}));
    if (saturation) add(RandomSaturation({.factor = *saturation, .value_range = range}));
    if (hue) add(RandomHue({.factor = *hue, .value_range = range}));
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    Tensor changed = images;
    for (const auto& change : changes_) changed = change->transform_at_random(changed, draws);
    return changed;
  }

 private:
  RandomColorJitterOptions options_;
  std::vector<std::shared_ptr<RandomImageLayerImpl>> changes_;
};

}  // namespace

RandomColorJitter::RandomColorJitter(const RandomColorJitterOptions& options)
    : Layer(std::make_shared<RandomColorJitterImpl>(options)) {}

}  // namespace tutti::keras::layers
