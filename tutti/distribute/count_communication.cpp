#include "tutti/distribute/count_communication.h"

#include "tutti/tensor/call_recorder.h"

namespace tutti {
namespace {

// Of the numbers of a tensor, and of the indices of a sparse one.
int64_t bytes_of(const Tensor& value) {
  if (!value.is_sparse()) return static_cast<int64_t>(value.nbytes());
  return static_cast<int64_t>(value._values().nbytes() + value._indices().nbytes());
}

}  // namespace

void count_reduction(CommunicationCounter& counter, const std::vector<ReduceRequest>& requests) {
  int64_t bytes = 0;
  for (const ReduceRequest& request : requests)
    if (request.values.size() > 1) bytes += bytes_of(request.values[0]);
  if (bytes > 0) communicated(counter, bytes);
}

void count_gather(CommunicationCounter& counter, const PerReplica<Tensor>& values) {
  if (values.size() == 1) return;
  int64_t bytes = 0;
  for (const Tensor& value : values) bytes += bytes_of(value);
  communicated(counter, bytes);
}

}  // namespace tutti
