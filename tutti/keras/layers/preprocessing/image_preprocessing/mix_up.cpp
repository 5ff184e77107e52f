#include "tutti/keras/layers/preprocessing/image_preprocessing/mix_up.h"

#include <ATen/TensorOperators.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/mixing_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class MixUpImpl : public MixingLayerImpl {
 public:
  explicit MixUpImpl(const MixUpOptions& options)
      : MixingLayerImpl("MixUp", options.name, options.seed), alpha_(options.alpha) {
    if (!(alpha_ > 0)) refuse(tutti::str("alpha is ", alpha_, "; it must be positive"));
  }

 protected:
  Mixed mix(const Tensor& images, const Tensor& others, RandomDraws& draws) const override {
    const Tensor weights = draws.beta(alpha_), own = for_images(weights, images);
    return {own * images + (1 - own) * others, weights};
  }

 private:
  double alpha_;
};

}  // namespace

MixUp::MixUp(const MixUpOptions& options) : Layer(std::make_shared<MixUpImpl>(options)) {}

}  // namespace tutti::keras::layers
