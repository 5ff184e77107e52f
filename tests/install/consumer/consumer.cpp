#include <ATen/ops/ones.h>
#include <tutti/core/error.h>
#include <tutti/core/per_replica.h>

int main() {
  const tutti::PerReplica<at::Tensor> values{at::ones({2}), at::ones({3})};
  const bool works = values.size() == 2 && tutti::to_string(tutti::ErrorCode::data_loss) == "data_loss";
  return works ? 0 : 1;
}
