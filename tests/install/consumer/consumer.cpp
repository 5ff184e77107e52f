#include <ATen/ops/ones.h>
#include <tutti/core/error.h>
#include <tutti/core/per_replica.h>
#include <tutti/data/example.h>

int main() {
  const tutti::PerReplica<at::Tensor> values{at::ones({2}), at::ones({3})};
  const bool works = values.size() == 2 && tutti::to_string(tutti::ErrorCode::data_loss) == "data_loss";
  const tutti::data::Example example{{{"label", tutti::data::Int64List{3}}}};  // linked with protobuf
  const bool parses = tutti::data::Example::parse(example.serialize()) == example;
  return works && parses ? 0 : 1;
}
