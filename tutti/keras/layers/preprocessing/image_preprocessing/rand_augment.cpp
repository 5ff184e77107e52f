#include "tutti/keras/layers/preprocessing/image_preprocessing/rand_augment.h"

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/augmentations_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandAugmentImpl : public RandomImageLayerImpl {
 public:
  explicit RandAugmentImpl(const RandAugmentOptions& options)
      : RandomImageLayerImpl("RandAugment", options.name, options.data_format, options.seed), options_(options) {
    check_range("factor", options_.factor, 0, 1);
    if (options_.num_ops < 1) refuse(tutti::str("num_ops is ", options_.num_ops, "; it must be positive"));
  }

  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    Tensor changed = images;
    for (int64_t i = 0; i < options_.num_ops; ++i)
      changed = augmentations_[static_cast<size_t>(draws.index(kNumAugmentations))](changed, draws);
    return changed;
  }

 private:
  RandAugmentOptions options_;
  std::vector<Augmentation> augmentations_ = augmentations(
      {.value_range = options_.value_range, .factor = options_.factor, .interpolation = options_.interpolation});
};

}  // namespace

RandAugment::RandAugment(const RandAugmentOptions& options) : Layer(std::make_shared<RandAugmentImpl>(options)) {}

}  // namespace tutti::keras::layers
