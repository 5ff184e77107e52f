#include "tutti/keras/layers/preprocessing/image_preprocessing/resizing.h"

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/fit_to_aspect_ratio_internal.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"

namespace tutti::keras::layers {
namespace {

// Float32 numbers in another dtype; for integers, the nearest that it holds.
Tensor saturate(const Tensor& x, at::ScalarType dtype) {
  if (at::isFloatingType(dtype)) return x.to(dtype);
  switch (dtype) {
    case at::kByte: return x.round().clamp_(0, 255).to(dtype);
    case at::kChar: return x.round().clamp_(-128, 127).to(dtype);
    case at::kShort: return x.round().clamp_(-32768, 32767).to(dtype);
    default: return x.round().to(dtype);  // float32 holds no more of the others
  }
}

class ResizingImpl : public ImageLayerImpl {
 public:
  explicit ResizingImpl(const ResizingOptions& options)
      : ImageLayerImpl("Resizing", options.name, options.data_format),
        options_(options),
        size_{options.height, options.width} {
    if (options_.height < 1 || options_.width < 1)
      refuse(tutti::str("height is ", options_.height, ", width ", options_.width, "; both must be positive"));
  }

 protected:
  Tensor transform(const Tensor& images, bool) const override {
    const data::ResizeOptions resize{.method = options_.interpolation, .antialias = options_.antialias};
    return saturate(data::resize_image(fitted(images), options_.height, options_.width, resize), images.scalar_type());
  }

  Size2D output_size(const Size2D&) const override { return size_; }

 private:
  Tensor fitted(const Tensor& images) const {
    switch (options_.aspect_ratio) {
      case AspectRatio::change: break;
      case AspectRatio::crop: return crop_to_aspect_ratio(images, size_);
      case AspectRatio::pad: return pad_to_aspect_ratio(images, size_, options_.fill_value);
    }
    return images;
  }

  ResizingOptions options_;
  Size2D size_;
};

}  // namespace

Resizing::Resizing(const ResizingOptions& options) : Layer(std::make_shared<ResizingImpl>(options)) {}

}  // namespace tutti::keras::layers
