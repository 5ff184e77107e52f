#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/data/auto_shard_policy.h"

namespace tutti::data {

// Instead of a number of threads: one for each processor, of which a map of cheap elements leaves most asleep. Instead
// of prefetch()'s buffer_size: see there. TF: tf.data.AUTOTUNE.
inline constexpr int kAutotune = -1;

struct BatchOptions {
  bool drop_remainder = false;  // leave out a last batch that is not full
  // How many threads stack batches side by side, in order; 0: whoever consumes does. Pays for rows of megabytes.
  int num_parallel_calls = 0;
};

struct RebatchOptions {
  bool drop_remainder = false;
};

struct PaddedBatchOptions {
  bool drop_remainder = false;
  double padding_value = 0;  // of tensors; text is padded with empty strings
  // The shape of each leaf's rows, in the leaves' order, -1 for the longest of the batch; empty: all as the longest.
  std::vector<std::vector<int64_t>> padded_shapes = {};
};

struct MapOptions {
  // How many threads compute side by side; 0: whoever consumes computes.
  int num_parallel_calls = 0;
  bool deterministic = true;  // results in the input's order, not as they become ready
  // Gives each call of the function random numbers of its own, by this seed, the pass and the element's index: what it
  // draws from LibTorch on the host without naming a generator (rand, dropout, …) is then the same on any number of
  // threads, other in each pass as a shuffle's order is, and goes on in an iterator that is restored. Without a seed it
  // draws from LibTorch's default generator, which none of that holds for. A draw on another device throws.
  std::optional<uint64_t> seed = std::nullopt;
};

struct InterleaveOptions {
  int64_t cycle_length = 16;  // how many datasets are open at once
  int64_t block_length = 1;   // how many elements come from one in its turn
  // How many threads read datasets side by side, of which as many more are then opened ahead; 0: whoever consumes
  // reads.
  int num_parallel_calls = 0;
  bool deterministic = true;  // the order that one thread would give, not whichever dataset is ready
};

struct WindowOptions {
  std::optional<int64_t> shift = std::nullopt;  // from where a window begins to where the next does; absent: its size
  int64_t stride = 1;                           // from one element of a window to the next
  bool drop_remainder = false;                  // leave out windows that are not full
};

struct BucketOptions {
  double padding_value = 0;
  std::vector<std::vector<int64_t>> padded_shapes = {};  // as in PaddedBatchOptions
  // Pads to one less than the bucket's upper boundary instead of the longest: the axes that are -1 in padded_shapes, or
  // every leaf's first. No element may then lie in the last bucket, which has no upper boundary.
  bool pad_to_bucket_boundary = false;
  bool no_padding = false;  // stacks elements as they are, which must then agree in shape
  bool drop_remainder = false;
};

struct ChooseOptions {
  // Ends where a dataset is chosen that has no more, instead of choosing again.
  bool stop_on_empty_dataset = true;
};

struct SampleOptions {
  std::vector<double> weights = {};  // of each dataset, not negative, of any sum; empty: all alike
  // Without a seed, one is drawn from LibTorch's CPU generator where sample_from_datasets() is called.
  std::optional<uint64_t> seed = std::nullopt;
  // Ends where a dataset is drawn that has no more, instead of going on with the others; with it the mixture never
  // drifts from the weights.
  bool stop_on_empty_dataset = false;
  bool rerandomize_each_iteration = false;
};

struct IgnoreErrorsOptions {
  bool log_warning = false;  // warns of each error that is dropped
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
