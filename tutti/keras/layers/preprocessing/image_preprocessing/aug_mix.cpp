#include "tutti/keras/layers/preprocessing/image_preprocessing/aug_mix.h"

#include <ATen/TensorOperators.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/augmentations_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class AugMixImpl : public RandomImageLayerImpl {
 public:
  explicit AugMixImpl(const AugMixOptions& options)
      : RandomImageLayerImpl("AugMix", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, 0, 1);
    if (options_.num_chains < 1 || options_.chain_depth < 1 || !(options_.alpha > 0))
      refuse(tutti::str("num_chains is ", options_.num_chains, ", chain_depth ", options_.chain_depth, ", alpha ",
                        options_.alpha, "; all must be positive"));
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const std::vector<double> weights = draws.shares(options_.num_chains, options_.alpha);
    const double kept = draws.shares(2, options_.alpha)[0];
    const int64_t num_choices = options_.all_ops ? kNumAugmentations : kNumWithoutColors;
    Tensor mixed = kept * images;
    for (const double weight : weights) {
      Tensor changed = images;
      for (int64_t i = 0; i < options_.chain_depth; ++i)
        if (const int64_t choice = draws.index(num_choices + 1); choice < num_choices)  // else the place stays empty
          changed = augmentations_[static_cast<size_t>(choice)](changed, draws);
      mixed = mixed + (1 - kept) * weight * changed;
    }
    return mixed.clamp(options_.value_range.lower, options_.value_range.upper);
  }

 private:
  AugMixOptions options_;
  std::vector<Augmentation> augmentations_ = augmentations(
      {.value_range = options_.value_range, .factor = options_.factor, .interpolation = options_.interpolation});
};

}  // namespace

AugMix::AugMix(const AugMixOptions& options) : Layer(std::make_shared<AugMixImpl>(options)) {}

}  // namespace tutti::keras::layers
