#include "tutti/keras/layers/preprocessing/image_preprocessing/auto_contrast.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/where.h>

#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"

namespace tutti::keras::layers {
namespace {

class AutoContrastImpl : public ImageLayerImpl {
 public:
  explicit AutoContrastImpl(const AutoContrastOptions& options)
      : ImageLayerImpl("AutoContrast", options.name, options.data_format), options_(options) {
    check_value_range(options_.value_range);
  }

 protected:
  Tensor transform(const Tensor& images, bool) const override {
    const Tensor input = floating(images);
    if (images.numel() == 0) return input;
    const Tensor x = rescaled(input, options_.value_range, kBytes);
    const Tensor low = x.amin({1, 2}, /*keepdim=*/true), high = x.amax({1, 2}, /*keepdim=*/true);
    const Tensor stretched = ((x - low) * (255 / (high - low))).clamp(0, 255);
    return at::where(high > low, rescaled(stretched, kBytes, options_.value_range), input);
  }

 private:
  AutoContrastOptions options_;
};

}  // namespace

AutoContrast::AutoContrast(const AutoContrastOptions& options) : Layer(std::make_shared<AutoContrastImpl>(options)) {}

}  // namespace tutti::keras::layers
