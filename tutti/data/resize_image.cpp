#include "tutti/data/resize_image.h"

#include <ATen/ops/upsample_bilinear2d.h>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {

Tensor resize_image(const Tensor& image, int64_t height, int64_t width) {
  if ((image.dim() != 3 && image.dim() != 4) || image.numel() == 0 || height < 1 || width < 1)
    throw Error(ErrorCode::invalid_argument,
                str("resize_image: an image ", str_list(image.sizes()), " to ", height, " x ", width,
                    "; [height, width, channels] or [batch, height, width, channels] and sizes from 1 are required"));
  if (image.size(-3) == height && image.size(-2) == width) return image.to(at::kFloat);
  const Tensor batch = (image.dim() == 3 ? image.unsqueeze(0) : image).to(at::kFloat);
  const Tensor resized =
      at::upsample_bilinear2d(batch.permute({0, 3, 1, 2}), {height, width}, false).permute({0, 2, 3, 1}).contiguous();
  return image.dim() == 3 ? resized.squeeze(0) : resized;
}

}  // namespace tutti::data
