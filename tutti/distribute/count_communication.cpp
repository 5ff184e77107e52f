#include "tutti/distribute/count_communication.h"

#include "tutti/tensor/call_recorder.h"
#include "tutti/tensor/sparse_tensor.h"

namespace tutti {

void count_reduction(CommunicationCounter& counter, const std::vector<ReduceRequest>& requests) {
  int64_t bytes = 0;
  for (const ReduceRequest& request : requests)
    if (request.values.size() > 1) bytes += bytes_in(request.values[0]);
  if (bytes > 0) communicated(counter, bytes);
}

void count_gather(CommunicationCounter& counter, const PerReplica<Tensor>& values) {
  if (values.size() == 1) return;
  int64_t bytes = 0;
  for (const Tensor& value : values) bytes += bytes_in(value);
  communicated(counter, bytes);
}

}  // namespace tutti
