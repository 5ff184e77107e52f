#include "tutti/keras/served_loops.h"

#include <c10/core/GradMode.h>

#include <deque>
#include <utility>

#include "tutti/distribute/current_worker.h"
#include "tutti/distribute/servers/served_training.h"
#include "tutti/keras/epochs.h"
#include "tutti/keras/model.h"

namespace tutti::keras {

// Steps that workers make on batches of their own, of which nobody knows who makes which.
class ServedLoops::Training final : public StepRunner {
 public:
  Training(ServedLoops& loops, int64_t steps) : loops_(loops), steps_(steps) {}

  int64_t length() const override { return steps_; }

  int64_t run_epoch(std::optional<RunningLogs>& running, const Begin& begin, const End& end) override {
    const int64_t at_once = loops_.model_.compiled().steps_per_execution;
    std::deque<RemoteValue<std::vector<BatchShares>>> scheduled;
    for (int64_t left = steps_; left > 0; left -= at_once)
      scheduled.push_back(
          loops_.coordinator_.schedule(loops_.train_, loops_.pipelines_, epoch_, std::min(at_once, left)));
    ++epoch_;
    int64_t made = 0;
    for (; !scheduled.empty(); scheduled.pop_front()) {
      const auto steps = loops_.fetch(scheduled.front());
      if (steps.empty()) continue;
      RunningLogs& numbers = of_objectives(loops_.model_, running);
      begin(made);
      for (const BatchShares& step : steps) loops_.model_.add_shares(ModelImpl::Step::train, step, numbers);
      made += std::ssize(steps);
      end(made - 1, numbers);
    }
    loops_.coordinator_.join();  // and the variables here are those of the servers
    if (made < steps_) warn_of_end_of_data(loops_.model_, made);
    return made;
  }

 private:
  ServedLoops& loops_;
  const int64_t steps_;
  int64_t epoch_ = 0;
};

class ServedLoops::Evaluation final : public StepRunner {
 public:
  Evaluation(ServedLoops& loops, const Model& model, const Batches& batches, std::optional<int64_t> steps)
      : loops_(loops), epochs_(model, batches, steps) {}

  int64_t length() const override { return epochs_.length(); }

  int64_t run_epoch(std::optional<RunningLogs>& running, const Begin& begin, const End& end) override {
    const int64_t at_once = loops_.model_.compiled().steps_per_execution;
    std::deque<RemoteValue<std::vector<BatchShares>>> under_way;
    int64_t handed_out = 0, made = 0;
    const auto take = [&] {
      const auto steps = loops_.fetch(under_way.front());
      under_way.pop_front();
      RunningLogs& numbers = of_objectives(loops_.model_, running);
      for (const BatchShares& step : steps) loops_.model_.add_shares(ModelImpl::Step::test, step, numbers);
      made += std::ssize(steps);
      end(made - 1, numbers);
    };
    epochs_.begin_epoch();
    for (bool goes_on = true; goes_on;) {
      std::vector<Shards> batches;
      for (const PerReplica<Batch>& shards : epochs_.next(at_once)) batches.push_back(shards.values());
      goes_on = std::ssize(batches) == at_once;
      if (batches.empty()) break;
      begin(handed_out);
      handed_out += std::ssize(batches);
      under_way.push_back(loops_.coordinator_.schedule(loops_.test_, batches));
      if (under_way.size() >= loops_.window()) take();
    }
    while (!under_way.empty()) take();
    return made;
  }

 private:
  ServedLoops& loops_;
  Epochs epochs_;
};

bool ServedLoops::are_of(const Strategy& strategy) {
  const auto* servers = dynamic_cast<const ParameterServerStrategy*>(&strategy);
  return servers && servers->training() && !servers->training()->runs_functions();
}

ParameterServerStrategy& ServedLoops::prepared(const Model& model, const Batches& batches, bool fits) {
  ModelImpl& impl = model.model();
  auto& strategy = dynamic_cast<ParameterServerStrategy&>(impl.strategy());
  if (!model.built()) {
    Epochs first(model, batches, 1);
    first.begin_epoch();
    first.next();
  }
  if (!fits) return strategy;
  impl.objectives();  // which may have the optimizer scale the loss
  const std::vector<Tensor> variables = impl.trainable_variables();
  if (impl.compiled().optimizer && !variables.empty()) strategy.build([&] { impl.optimizer().build(variables); });
  return strategy;
}

ServedLoops::ServedLoops(const Model& model, const Batches& batches, std::optional<ServedFit> fit)
    : strategy_(prepared(model, batches, fit.has_value())),
      model_(model.model()),
      batches_(batches),
      fit_(std::move(fit)),
      coordinator_(strategy_),
      pipelines_(coordinator_.create_per_worker_value([] { return WorkerPipeline(); })),
      train_(coordinator_.function("fit", [this](WorkerPipeline& pipeline, int64_t epoch,
                                                 int64_t count) { return train(pipeline, epoch, count); })),
      test_(coordinator_.function("evaluate", [this](const std::vector<Shards>& each) { return test(each); })),
      predict_(coordinator_.function("predict", [this](const Shards& shards) { return outputs(shards); })) {}

// On a worker. Each step reads variables anew, as one device does.
std::vector<BatchShares> ServedLoops::train(WorkerPipeline& pipeline, int64_t epoch, int64_t count) {
  std::vector<BatchShares> steps;
  if (pipeline.ended_in == epoch) return steps;
  const auto begin = [&] {
    pipeline.next =
        batches_.begin(strategy_, {.num_input_pipelines = strategy_.num_workers(),
                                   .input_pipeline_id = current_worker_index(),
                                   .num_replicas_in_sync = static_cast<int>(strategy_.num_replicas_in_sync())});
  };
  if (!pipeline.next) begin();
  while (std::ssize(steps) < count) {
    auto shards = pipeline.next();
    if (!shards && pipeline.read_in >= 0 && pipeline.read_in < epoch) {  // the epoch before took the last batch
      begin();
      shards = pipeline.next();
    }
    if (!shards) {
      pipeline = {.ended_in = epoch};
      break;
    }
    pipeline.read_in = epoch;
    if (!steps.empty()) strategy_.training()->worker().next_moment();
    model_.settle(*shards);
    steps.push_back(model_.shares_of_step(ModelImpl::Step::train, *shards, fit_->class_weight));
    if (fit_->threads) fit_->threads->look();
  }
  return steps;
}

std::vector<BatchShares> ServedLoops::test(const std::vector<Shards>& batches) const {
  std::vector<BatchShares> steps;
  for (const Shards& batch : batches) {
    PerReplica<Batch> shards(batch);
    steps.push_back(model_.shares_of_step(ModelImpl::Step::test, shards, {}));
  }
  return steps;
}

ServedLoops::Outputs ServedLoops::outputs(const Shards& shards) const {
  const c10::NoGradGuard no_grad;
  return model_.predict_replicas(PerReplica<Batch>(shards)).values();
}

// Where the function was cancelled, it is the first error that says why.
template <class T>
T ServedLoops::fetch(const RemoteValue<T>& value) {
  try {
    return value.fetch();
  } catch (...) {
    coordinator_.join();
    throw;
  }
}

std::unique_ptr<StepRunner> ServedLoops::training(int64_t steps_per_epoch) {
  return std::make_unique<Training>(*this, steps_per_epoch);
}

std::unique_ptr<StepRunner> ServedLoops::evaluation(const Model& model, const Batches& batches,
                                                    std::optional<int64_t> steps) {
  return std::make_unique<Evaluation>(*this, model, batches, steps);
}

std::function<ServedLoops::Outputs()> ServedLoops::predict(const PerReplica<Batch>& shards) {
  return [this, value = coordinator_.schedule(predict_, shards.values())] { return fetch(value); };
}

size_t ServedLoops::window() const { return 8 * static_cast<size_t>(strategy_.num_workers()); }

}  // namespace tutti::keras
