// The guide's training loop, recorded: `function` runs the step once, keeps what it did, and replays it.
#include <tutti/tutti.h>

#include <iostream>

using namespace tutti;

int main() {
  constexpr int kGlobalBatch = 16;
  MirroredStrategy strategy({.devices = configure_logical_cpus(4)});
  const auto [model, optimizer] = strategy.build([] {
    const keras::Sequential model(
        {keras::layers::Dense({.units = 1, .kernel_regularizer = keras::regularizers::L2(1e-4)})});
    return std::tuple(model, keras::optimizers::SGD());
  });
  const auto dataset = strategy.distribute(
      data::from_tensors(std::tuple(torch::ones({1}), torch::ones({1}))).repeat(1000).batch(kGlobalBatch));

  const auto replica_step = [&](const Tensor& x, const Tensor& y) {
    const Tensor logits = model(x, {.training = true});
    Tensor loss =
        compute_average_loss(torch::binary_cross_entropy_with_logits(logits, y, {}, {}, at::Reduction::None).squeeze(1),
                             {.global_batch_size = kGlobalBatch});
    loss = loss + scale_regularization_loss(model.losses());
    optimizer.apply_gradients(gradients(loss, model.trainable_variables()), model.trainable_variables());
    return loss;
  };
  // One call of `run`, one reduction, both in the recording. A batch of another shape is recorded anew.
  const auto train_step = function([&](const PerReplica<std::tuple<Tensor, Tensor>>& batch) {
    return strategy.reduce(ReduceOp::sum, strategy.run(replica_step, batch));
  });

  Tensor loss;
  for (const auto& batch : dataset) loss = train_step(batch);
  std::cout << "loss " << loss.item<float>() << ", " << train_step.tracing_count() << " recordings\n";
  // Its calls, and what each reads and gives.
  std::cout << train_step.get_concrete_function(*dataset.begin()).graph().to_string();

  // Ten steps a call: all ten batches are fetched first, then ten replays run without returning.
  auto iterator = dataset.begin();
  loss = repeat(10, train_step, iterator);
}
