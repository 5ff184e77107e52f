#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tutti/keras/batches.h"
#include "tutti/keras/losses/loss.h"
#include "tutti/keras/metrics/metric.h"
#include "tutti/keras/optimizers/optimizer.h"
#include "tutti/keras/progress.h"

namespace tutti::keras {

struct CompileOptions {
  std::optional<optimizers::Optimizer> optimizer = {};
  std::optional<losses::Loss> loss = {};
  std::vector<metrics::Metric> metrics = {};  // never weighted
};

struct FitOptions {
  std::optional<int64_t> batch_size = {};  // of the global batch; for tensors only, 32 unless given
  int64_t epochs = 1;
  Verbose verbose = Verbose::automatic;
  std::optional<Batches> validation_data = {};  // evaluated after each epoch
  bool shuffle = true;                          // tensors only: a new order in every epoch
  std::map<int64_t, double> class_weight = {};  // weight of the samples of each class; classes left out weigh 1
  Tensor sample_weight = {};                    // tensors only: [N]
  int64_t initial_epoch = 0;
};

struct EvaluateOptions {
  std::optional<int64_t> batch_size = {};  // as in FitOptions
  Verbose verbose = Verbose::automatic;
  Tensor sample_weight = {};  // tensors only: [N]
};

struct PredictOptions {
  int64_t batch_size = 32;
};

}  // namespace tutti::keras
