#include "tutti/keras/callbacks/frequency.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::keras::callbacks {

std::optional<int64_t> Frequency::parse(std::string_view text) {
  if (text == "epoch") return std::nullopt;
  if (text == "batch") return 1;
  throw Error(ErrorCode::invalid_argument, str("callbacks: the frequency is \"", text,
                                               "\"; it must be \"epoch\", \"batch\" or a number of batches"));
}

std::optional<int64_t> Frequency::checked(int64_t batches) {
  if (batches >= 1) return batches;
  throw Error(ErrorCode::invalid_argument,
              str("callbacks: the frequency is ", batches, " batches; it must be positive, or \"epoch\""));
}

bool BatchCounter::due(int64_t batch) {
  if (!batches_) return false;
  counted_ += batch <= last_seen_ ? batch + 1 : batch - last_seen_;
  last_seen_ = batch;
  if (counted_ < *batches_) return false;
  counted_ = 0;
  return true;
}

}  // namespace tutti::keras::callbacks
