#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <utility>

#include "tutti/core/str.h"
#include "tutti/dtensor/stateless_random.h"
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

RandomImageLayerImpl::RandomImageLayerImpl(std::string type, std::string name, DataFormat data_format,
                                           std::optional<uint64_t> seed)
    : ImageLayerImpl(std::move(type), std::move(name), data_format), seed_(seed) {}

Tensor RandomImageLayerImpl::transform(const Tensor& images, bool training) const {
  const Tensor input = floating(images);
  return training && images.numel() > 0 ? transform_at_random(input) : transform_always(input);
}

Tensor RandomImageLayerImpl::draw(const Tensor& images, int64_t count, const FactorRange& range) const {
  const auto numbers = images.options().dtype(at::kFloat).requires_grad(false);
  if (!seed_) return at::empty({count}, numbers).uniform_(range.lower, range.upper);
  const auto replica = static_cast<uint64_t>(ThreadView::current().replica + 1);
  const StatelessSeed seed{*seed_, replica << 48 | (*num_draws_)++};
  return stateless_uniform({count}, {.seed = seed}).to(numbers) * (range.upper - range.lower) + range.lower;
}

void RandomImageLayerImpl::check_range(const char* option, const FactorRange& range, double lowest,
                                       double highest) const {
  if (!(range.lower >= lowest && range.upper <= highest))
    refuse(
        tutti::str(option, " is [", range.lower, ", ", range.upper, "]; it must lie in [", lowest, ", ", highest, "]"));
}

}  // namespace tutti::keras::layers
