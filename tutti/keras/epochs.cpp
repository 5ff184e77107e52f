#include "tutti/keras/epochs.h"

#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"

namespace tutti::keras {

void Epochs::begin_epoch() {
  goes_on_ = steps_ && next_;
  if (!goes_on_) next_ = batches_.begin(model_.strategy());
  taken_ = 0;
}

std::optional<PerReplica<Batch>> Epochs::next() {
  if (steps_ && taken_ == *steps_) return std::nullopt;
  auto shards = next_();
  if (!shards && taken_ == 0 && goes_on_) {  // the epoch before took the last batch
    next_ = batches_.begin(model_.strategy());
    shards = next_();
  }
  if (!shards) {
    next_ = nullptr;
    if (steps_ || taken_ == 0) warn_of_end_of_data(model_, taken_);
    return std::nullopt;
  }
  ++taken_;
  model_.settle(*shards);
  return shards;
}

std::vector<PerReplica<Batch>> Epochs::next(int64_t count) {
  std::vector<PerReplica<Batch>> batches;
  while (std::ssize(batches) < count) {
    auto shards = next();
    if (!shards) break;
    batches.push_back(std::move(*shards));
  }
  return batches;
}

// Keras's words.
void warn_of_end_of_data(const ModelImpl& model, int64_t taken) {
  if (taken == 0) throw Error(ErrorCode::invalid_argument, str(model.name(), ": the dataset has no batch"));
  warn(
      "Your input ran out of data; interrupting training. Make sure that your dataset or generator can generate at "
      "least `steps_per_epoch * epochs` batches. You may need to use the `.repeat()` function when building your "
      "dataset.");
}

}  // namespace tutti::keras
