#pragma once

#include <cstdint>
#include <optional>

#include "tutti/data/auto_shard_policy.h"

namespace tutti::data {

struct BatchOptions {
  bool drop_remainder = false;  // leave out a last batch that is not full
};

struct PaddedBatchOptions {
  bool drop_remainder = false;
  double padding_value = 0;  // of tensors; text is padded with empty strings
};

struct MapOptions {
  // How many threads compute side by side, in the input's order all the same; 0: whoever consumes computes.
  int num_parallel_calls = 0;
};

struct InterleaveOptions {
  int64_t cycle_length = 16;  // how many datasets are open at once
  int64_t block_length = 1;   // how many elements come from one in its turn
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
