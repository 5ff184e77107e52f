#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/function/function.h"
#include "tutti/keras/batches.h"
#include "tutti/keras/running_logs.h"

namespace tutti::keras {

class ModelImpl;

// The steps of fit, evaluate and predict on all replicas, as recorded functions: what a step does is recorded when it
// runs for the first time, compared when it runs for the second time, and replayed from then on, with the same bits. A
// step that cannot be recorded runs as it is, which is said once for each reason.
class RecordedSteps {
 public:
  // The model must outlive it.
  explicit RecordedSteps(const ModelImpl& model);

  PerReplica<StepShare> train(PerReplica<Batch>& shards, int64_t global_size, int64_t first_sample) const;
  PerReplica<StepShare> test(PerReplica<Batch>& shards, int64_t global_size, int64_t first_sample) const;
  PerReplica<std::vector<Tensor>> predict(PerReplica<Batch> shards) const;

  int64_t tracing_count() const;  // of all three

 private:
  using Say = std::function<void(const std::string& function, const Error& why)>;
  RecordedSteps(const ModelImpl& model, const Say& say);
  FunctionOptions options(const char* function, const Say& say) const;

  // `state` stands for what of the model decides, besides the arguments, which recording a step takes.
  using Measured = std::function<PerReplica<StepShare>(const PerReplica<Batch>&, int64_t global_size,
                                                       int64_t first_sample, uint64_t state)>;
  using Predicted = std::function<PerReplica<std::vector<Tensor>>(const PerReplica<Batch>&, uint64_t state)>;

  const ModelImpl& model_;
  const std::shared_ptr<ReplayMemory> memory_;
  Function<Measured> train_;
  Function<Measured> test_;
  Function<Predicted> predict_;
};

}  // namespace tutti::keras
