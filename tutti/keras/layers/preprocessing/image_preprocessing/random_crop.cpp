#include "tutti/keras/layers/preprocessing/image_preprocessing/random_crop.h"

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fit_to_aspect_ratio_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

class RandomCropImpl : public RandomImageLayerImpl {
 public:
  explicit RandomCropImpl(const RandomCropOptions& options)
      : RandomImageLayerImpl("RandomCrop", options.name, options.data_format, options.seed),
        size_{options.height, options.width} {
    if (size_[0] < 1 || size_[1] < 1)
      refuse(tutti::str("height is ", size_[0], ", width ", size_[1], "; both must be positive"));
  }

 protected:
  Tensor transform_at_random(const Tensor& images, RandomDraws& draws) const override {
    if (images.size(1) < size_[0] || images.size(2) < size_[1]) return transform_always(images);
    Tensor window = images;
    for (const int64_t axis : {1, 2}) {
      const int64_t extent = size_[static_cast<size_t>(axis - 1)];
      window = window.narrow(axis, draws.index(images.size(axis) - extent + 1), extent);
    }
    return window;
  }

  Tensor transform_always(const Tensor& images) const override { return crop_and_resize(images, size_); }

  Size2D output_size(const Size2D&) const override { return size_; }

 private:
  Size2D size_;
};

}  // namespace

RandomCrop::RandomCrop(const RandomCropOptions& options) : Layer(std::make_shared<RandomCropImpl>(options)) {}

}  // namespace tutti::keras::layers
