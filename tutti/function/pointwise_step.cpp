#include "tutti/function/pointwise_step.h"

#include <ATen/core/Tensor.h>

#include "tutti/function/pointwise_pass.h"

namespace tutti {
namespace {

// A pass and the tensors that it reads and writes.
struct PassOnTensors {
  PointwisePass pass;
  std::vector<Tensor> values = {};
  std::vector<float*> first_elements = {};

  void run() {
    for (size_t i = 0; i < values.size(); ++i)
      first_elements[i] =
          pass.writes(i) ? values[i].mutable_data_ptr<float>() : const_cast<float*>(values[i].const_data_ptr<float>());
    pass.run(first_elements);
  }
};

}  // namespace

std::unique_ptr<JoinedCalls> pointwise_step(const Program& program, const CallGroup& group,
                                            const JoinedCalls::Memory& memory) {
  const auto on_tensors = std::make_shared<PassOnTensors>(PassOnTensors{PointwisePass(group.ops, group.kept)});
  std::vector<Tensor> written;
  for (size_t i = 0; i < on_tensors->pass.values().size(); ++i) {
    on_tensors->values.push_back(memory.tensor(on_tensors->pass.values()[i]));
    if (on_tensors->pass.writes(i)) written.push_back(on_tensors->values.back());
  }
  on_tensors->first_elements.resize(on_tensors->values.size());
  return std::make_unique<JoinedCalls>(program, group.calls, memory, std::move(written),
                                       [on_tensors] { on_tensors->run(); });
}

}  // namespace tutti
