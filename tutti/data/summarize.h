#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tutti/core/tensor_fwd.h"
#include "tutti/data/event.h"

namespace tutti::data {

// The finite ones of all values of a real tensor, of any shape, in buckets of one width from the least to the largest.
// Where these are equal, all are in the last bucket. TF: what tf.summary.histogram makes.
HistogramBuckets summarize_histogram(const Tensor& values, int64_t num_buckets = 30);

// The first images of a batch [N, height, width, channels], of 1 to 4 channels: uint8, or floating point from 0 to 1,
// beyond which values are cut off. TF: what tf.summary.image makes.
// Throws: invalid_argument for other dtypes and shapes, and for images without pixels.
EncodedImages summarize_images(const Tensor& images, int64_t max_outputs = 3);

}  // namespace tutti::data
