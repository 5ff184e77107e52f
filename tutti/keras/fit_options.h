#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tutti/keras/batches.h"
#include "tutti/keras/callbacks/callback.h"
#include "tutti/keras/compile_options.h"
#include "tutti/keras/progress.h"

namespace tutti::keras {

// In how many threads LibTorch computes while one replica is trained; several have one each.
enum class FitThreads {
  as_set,  // as many as the program or OMP_NUM_THREADS said, by itself as many as there are processors
  free,    // of these as many as others leave free, looked at ten times a second: beside busy programs several times as
           // fast. Sums are rounded otherwise in other numbers of threads, so that runs differ in the last bits
};

struct FitOptions {
  std::optional<int64_t> batch_size = {};  // of the global batch; for tensors only, 32 unless given
  int64_t epochs = 1;
  Verbose verbose = Verbose::automatic;
  std::vector<callbacks::Callback> callbacks = {};  // called in this order
  double validation_split = 0;                  // tensors only: the last part of the samples, in [0, 1), is kept apart
  std::optional<Batches> validation_data = {};  // evaluated after an epoch
  bool shuffle = true;                          // tensors only: a new order in every epoch
  std::map<int64_t, double> class_weight = {};  // weight of the samples of each class; classes left out weigh 1
  Tensors sample_weight = {};                   // tensors only: [N], or [N, steps]; for all outputs or for each
  int64_t initial_epoch = 0;
  std::optional<int64_t> steps_per_epoch = {};        // unless given, an epoch is a pass over the data
  std::optional<int64_t> validation_steps = {};       // likewise; each validation begins with the first batch
  std::optional<int64_t> validation_batch_size = {};  // with validation_split; batch_size unless given
  int64_t validation_freq = 1;                        // epochs from one validation to the next
  FitThreads threads = FitThreads::as_set;
};

struct EvaluateOptions {
  std::optional<int64_t> batch_size = {};  // as in FitOptions
  Verbose verbose = Verbose::automatic;
  Tensors sample_weight = {};  // tensors only
  std::optional<int64_t> steps = {};
  std::vector<callbacks::Callback> callbacks = {};
};

struct PredictOptions {
  std::optional<int64_t> batch_size = {};  // tensors only
  std::optional<int64_t> steps = {};
  std::vector<callbacks::Callback> callbacks = {};
};

}  // namespace tutti::keras
