#include "tutti/keras/layers/preprocessing/image_preprocessing/center_crop.h"

#include "tutti/core/str.h"
#include "tutti/data/resize_image.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fit_to_aspect_ratio_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"

namespace tutti::keras::layers {
namespace {

class CenterCropImpl : public ImageLayerImpl {
 public:
  explicit CenterCropImpl(const CenterCropOptions& options)
      : ImageLayerImpl("CenterCrop", options.name, options.data_format), size_{options.height, options.width} {
    if (size_[0] < 1 || size_[1] < 1)
      refuse(tutti::str("height is ", size_[0], ", width ", size_[1], "; both must be positive"));
  }

 protected:
  Tensor transform(const Tensor& images, bool) const override {
    const Tensor input = floating(images);
    if (input.size(1) >= size_[0] && input.size(2) >= size_[1]) return crop_center(input, size_);
    return crop_and_resize(input, size_);
  }

  Size2D output_size(const Size2D&) const override { return size_; }

 private:
  Size2D size_;
};

}  // namespace

CenterCrop::CenterCrop(const CenterCropOptions& options) : Layer(std::make_shared<CenterCropImpl>(options)) {}

}  // namespace tutti::keras::layers
