#include "tutti/keras/layers/preprocessing/image_preprocessing/equalization.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/colors_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"

namespace tutti::keras::layers {
namespace {

class EqualizationImpl : public ImageLayerImpl {
 public:
  explicit EqualizationImpl(const EqualizationOptions& options)
      : ImageLayerImpl("Equalization", options.name, options.data_format), options_(options) {
    check_value_range(options_.value_range);
    if (options_.bins < 2) refuse(tutti::str("bins is ", options_.bins, "; it must be 2 or more"));
  }

 protected:
  Tensor transform(const Tensor& images, bool training) const override {
    if (!training || images.numel() == 0) return floating(images);
    // A row for each channel of each image.
    const Tensor x = rescaled(floating(images), options_.value_range, kBytes).permute({0, 3, 1, 2});
    const Tensor rows = x.flatten(2);
    const Tensor bin =
        (rows * (static_cast<double>(options_.bins - 1) / 255)).clamp(0, options_.bins - 1).to(at::kLong);
    const Tensor sums = histogram(bin).cumsum(2);
    const Tensor all = sums.select(2, -1).unsqueeze(2), first = sums.where(sums > 0, all).amin(2, /*keepdim=*/true);
    const Tensor equal = ((sums - first) * 255 / (all - first).clamp_min(1)).round();
    const Tensor changed = at::where(all > first, equal.gather(2, bin).to(rows.scalar_type()), rows);
    return rescaled(changed.reshape(x.sizes()).permute({0, 2, 3, 1}), kBytes, options_.value_range);
  }

 private:
  Tensor histogram(const Tensor& bin) const {
    const Tensor ones = at::ones_like(bin, at::kDouble);
    return at::zeros({bin.size(0), bin.size(1), options_.bins}, ones.options()).scatter_add(2, bin, ones);
  }

  EqualizationOptions options_;
};

}  // namespace

Equalization::Equalization(const EqualizationOptions& options) : Layer(std::make_shared<EqualizationImpl>(options)) {}

}  // namespace tutti::keras::layers
