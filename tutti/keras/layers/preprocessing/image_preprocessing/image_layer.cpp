#include <algorithm>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/image_layer_internal.h"
#include "tutti/keras/layers/preprocessing/input_dtype_internal.h"

namespace tutti::keras::layers {

Tensor ImageLayerImpl::call(const Tensor& x, const CallOptions& options) const {
  (void)compute_output_shape(x.sizes().vec());
  return x.dim() == 3 ? transform(x.unsqueeze(0), options.training).squeeze(0) : transform(x, options.training);
}

Shape ImageLayerImpl::compute_output_shape(const Shape& input_shape) const {
  const size_t rank = input_shape.size();
  if (rank != 3 && rank != 4)
    refuse(tutti::str("the input has shape ", to_string(input_shape),
                      "; it must be [batch, height, width, channels] or [height, width, channels]"));
  Shape shape = input_shape;
  const auto [height, width] = output_size({shape[rank - 3], shape[rank - 2]});
  shape[rank - 3] = height;
  shape[rank - 2] = width;
  return shape;
}

void ImageLayerImpl::check_value_range(const FactorRange& range) const {
  if (!(range.lower < range.upper))
    refuse(tutti::str("value_range is [", range.lower, ", ", range.upper, "]; its numbers must differ"));
}

void ImageLayerImpl::check_colors(const Tensor& images, std::initializer_list<int64_t> channels) const {
  if (std::ranges::find(channels, images.size(-1)) == channels.end())
    refuse(tutti::str("the images have ", images.size(-1), " channels; it takes colours: ", str_list(channels)));
}

RandomImageLayerImpl::RandomImageLayerImpl(std::string type, std::string name, DataFormat data_format,
                                           std::optional<uint64_t> seed)
    : ImageLayerImpl(std::move(type), std::move(name), data_format), seed_(seed) {}

Tensor RandomImageLayerImpl::transform(const Tensor& images, bool training) const {
  const Tensor input = floating(images);
  if (!training) return transform_always(input);
  RandomDraws draws(input, seed_, (*num_calls_)++);
  return images.numel() > 0 ? transform_at_random(input, draws) : transform_always(input);
}

void RandomImageLayerImpl::check_range(const char* option, const FactorRange& range, double lowest,
                                       double highest) const {
  if (!(range.lower >= lowest && range.upper <= highest))
    refuse(
        tutti::str(option, " is [", range.lower, ", ", range.upper, "]; it must lie in [", lowest, ", ", highest, "]"));
}

}  // namespace tutti::keras::layers
