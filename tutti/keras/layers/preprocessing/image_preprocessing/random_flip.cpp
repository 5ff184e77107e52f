#include "tutti/keras/layers/preprocessing/image_preprocessing/random_flip.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomFlipImpl : public RandomImageLayerImpl {
 public:
  explicit RandomFlipImpl(const RandomFlipOptions& options)
      : RandomImageLayerImpl("RandomFlip", options.name, options.data_format, options.seed),
        axes_(axes_of(options.mode)) {}

 protected:
  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    const Tensor flips = draws.uniform({0, 1}) <= 0.5;
    return at::where(flips.reshape({-1, 1, 1, 1}), images.flip(axes_), images);
  }

 private:
  static Shape axes_of(FlipMode mode) {
    switch (mode) {
      case FlipMode::horizontal: return {2};
      case FlipMode::vertical: return {1};
      case FlipMode::horizontal_and_vertical: break;
    }
    return {1, 2};
  }

  Shape axes_;
};

}  // namespace

RandomFlip::RandomFlip(const RandomFlipOptions& options) : Layer(std::make_shared<RandomFlipImpl>(options)) {}

}  // namespace tutti::keras::layers
