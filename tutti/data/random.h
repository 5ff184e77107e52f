#pragma once

#include <cstdint>
#include <optional>

#include "tutti/data/dataset.h"

namespace tutti::data {

// int64 scalars without end, uniform in [0, 2^32); the same ones in each pass. Without a seed, one is drawn from
// LibTorch's CPU generator where this is called. TF: tf.data.Dataset.random.
Dataset<Tensor> random(std::optional<uint64_t> seed = std::nullopt);

}  // namespace tutti::data
