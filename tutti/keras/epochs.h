#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/keras/batches.h"
#include "tutti/keras/model.h"

namespace tutti::keras {

// The batches of one epoch after the other. An epoch is a pass over the data; or a number of steps, and then the next
// epoch goes on where the last one ended, and where that was the end of the data with another pass. What it is made of
// must outlive it.
class Epochs {
 public:
  Epochs(const Model& model, const Batches& batches, std::optional<int64_t> steps)
      : model_(model.model()), batches_(batches), steps_(steps) {}

  // The number of steps of an epoch; negative where it is not known.
  int64_t length() const { return steps_.value_or(std::max<int64_t>(batches_.cardinality(), -1)); }

  void begin_epoch();
  // The next batch of the epoch, with which the model is built. Throws: invalid_argument where the data have none.
  std::optional<PerReplica<Batch>> next();
  // The next `count` batches; fewer at the end of the epoch.
  std::vector<PerReplica<Batch>> next(int64_t count);

 private:
  ModelImpl& model_;
  const Batches& batches_;
  std::optional<int64_t> steps_;
  Batches::Next next_;
  bool goes_on_ = false;  // with a pass that another epoch began
  int64_t taken_ = 0;
};

// For an epoch of a number of steps, of which `taken` were there. Throws: invalid_argument where that is none.
void warn_of_end_of_data(const ModelImpl& model, int64_t taken);

}  // namespace tutti::keras
