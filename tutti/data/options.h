#pragma once

#include <cstdint>
#include <optional>

#include "tutti/data/auto_shard_policy.h"

namespace tutti::data {

struct BatchOptions {
  bool drop_remainder = false;  // leave out a last batch that is not full
};

struct ShuffleOptions {
  // Without a seed, one is drawn from LibTorch's CPU generator where shuffle() is called (and nothing more is drawn,
  // ever), so that the order follows from torch::manual_seed.
  std::optional<uint64_t> seed = std::nullopt;
  bool reshuffle_each_iteration = true;
};

// TF: tf.data.Options.
struct DatasetOptions {
  AutoShardPolicy auto_shard_policy = AutoShardPolicy::auto_;
};

}  // namespace tutti::data
