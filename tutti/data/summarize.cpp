#include "tutti/data/summarize.h"

#include <ATen/ops/bincount.h>
#include <ATen/ops/isfinite.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/encode_png.h"

namespace tutti::data {

HistogramBuckets summarize_histogram(const Tensor& values, int64_t num_buckets) {
  if (num_buckets < 1)
    throw Error(ErrorCode::invalid_argument,
                str("summarize_histogram: num_buckets is ", num_buckets, "; it must be positive"));
  const c10::NoGradGuard no_grad;
  Tensor numbers = values.detach().cpu().to(at::kDouble).flatten();
  numbers = numbers.masked_select(at::isfinite(numbers));
  HistogramBuckets buckets(static_cast<size_t>(num_buckets));
  if (numbers.numel() == 0) return buckets;
  // Half the numbers, as the range of all may be larger than any number.
  const double least = numbers.min().item<double>(), largest = numbers.max().item<double>();
  const double half_width = (largest / 2 - least / 2) / static_cast<double>(num_buckets);
  if (half_width == 0) {
    buckets.assign(buckets.size(), {largest, largest, 0});
    buckets.back()[2] = static_cast<double>(numbers.numel());
    return buckets;
  }
  const Tensor positions =
      numbers.div(2).sub_(least / 2).div_(half_width).floor_().clamp_(0, num_buckets - 1).to(at::kLong);
  const Tensor counts = at::bincount(positions, {}, num_buckets);
  const auto edge = [&](int64_t i) {
    return i == num_buckets ? largest : least + static_cast<double>(i) * half_width * 2;
  };
  for (int64_t i = 0; i < num_buckets; ++i)
    buckets[static_cast<size_t>(i)] = {edge(i), edge(i + 1), counts[i].item<double>()};
  return buckets;
}

EncodedImages summarize_images(const Tensor& images, int64_t max_outputs) {
  const c10::NoGradGuard no_grad;
  const bool is_floating = images.is_floating_point();
  if (images.dim() != 4 || images.numel() == 0 || (!is_floating && images.scalar_type() != at::kByte))
    throw Error(
        ErrorCode::invalid_argument,
        str("summarize_images: the images are ", c10::toString(images.scalar_type()), ' ', str_list(images.sizes()),
            "; they must be uint8 or floating point [N, height, width, channels], and have pixels"));
  EncodedImages encoded{.height = images.size(1), .width = images.size(2)};
  for (int64_t i = 0; i < std::min(images.size(0), max_outputs); ++i) {
    Tensor image = images[i].detach().cpu();
    // tf.image.convert_image_dtype: the parts of [0, 1] that become each byte are equally large.
    if (is_floating) image = image.to(at::kFloat).mul(255.5).nan_to_num(0).clamp_(0, 255).to(at::kByte);
    encoded.files.push_back(encode_png(image));
  }
  return encoded;
}

}  // namespace tutti::data
