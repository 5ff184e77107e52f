#pragma once

#include <cstdint>

#include "tutti/data/dataset.h"

namespace tutti::data {

// int64 scalars without end: start, start + step, … TF: tf.data.Dataset.counter.
// Throws (when iterated): out_of_range where the next one is no int64.
Dataset<Tensor> counter(int64_t start = 0, int64_t step = 1);

}  // namespace tutti::data
