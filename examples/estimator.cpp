// The migration guide's Estimator: Adagrad on three rows, trained and evaluated under a strategy. model_fn is written
// as for a graph: it is called once per mode, and what it computes is repeated for every batch.
#include <tutti/tutti.h>

#include <iostream>

using namespace tutti;
namespace layers = keras::layers;

int main() {
  const Tensor features = torch::tensor({{1.0F, 1.5F}, {2.0F, 2.5F}, {3.0F, 3.5F}});
  const Tensor labels = torch::tensor({{0.3F}, {0.5F}, {0.7F}});
  const Tensor eval_features = torch::tensor({{4.0F, 4.5F}, {5.0F, 5.5F}, {6.0F, 6.5F}});
  const Tensor eval_labels = torch::tensor({{0.8F}, {0.9F}, {1.0F}});

  const auto input_fn = [&] { return data::from_tensor_slices(features, labels).batch(1); };
  const auto eval_input_fn = [&] { return data::from_tensor_slices(eval_features, eval_labels).batch(1); };

  const auto model_fn = [](const Tensor& features, const Tensor& labels, estimator::ModeKeys mode) {
    const Tensor logits = layers::Dense({.units = 1})(features);
    const Tensor loss = torch::mse_loss(logits, labels);
    const keras::optimizers::Adagrad optimizer({.learning_rate = 0.05, .initial_accumulator_value = 0.1});
    return estimator::EstimatorSpec({.mode = mode,
                                     .predictions = {{"logits", logits}},
                                     .loss = loss,
                                     .train_op = optimizer.minimize(loss, estimator::get_global_step())});
  };

  MirroredStrategy strategy(
      {.devices = configure_logical_cpus(1)});  // with more, each replica takes a batch of its own
  const estimator::RunConfig config({.train_distribute = strategy, .eval_distribute = strategy});
  const estimator::Estimator estimator(model_fn, {.config = config});
  const auto [metrics, exports] = estimator::train_and_evaluate(estimator, estimator::TrainSpec({.input_fn = input_fn}),
                                                                estimator::EvalSpec({.input_fn = eval_input_fn}));
  std::cout << "loss " << metrics.at("loss") << " after " << metrics.at("global_step") << " steps\n";
}
