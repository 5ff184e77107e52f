// MultiWorkerMirroredStrategy: every process of a `tutti launch` runs all of these tests, in the same order, and what
// they compare is what one process computes with as many replicas.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "tests/processes/of_processes.h"
#include "tests/support/dataset_values.h"
#include "tests/support/error_of.h"
#include "tutti/distribute/check_in_sync.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/distribute/variable.h"
#include "tutti/keras/layers/preprocessing/image_preprocessing/random_brightness.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/random_seed.h"

namespace tutti {
namespace {

using ::testing::ElementsAre, ::testing::HasSubstr;

class MultiWorker : public OfProcesses {};

TEST_F(MultiWorker, KnowsTheReplicasOfAllProcesses) {
  EXPECT_EQ(strategy.num_replicas_in_sync(), size() * kDevices);
  EXPECT_EQ(strategy.num_local_replicas(), kDevices);
  EXPECT_EQ(strategy.is_chief(), rank() == 0);
  EXPECT_EQ(strategy.should_checkpoint(), rank() == 0);
  EXPECT_EQ(strategy.should_save_summary(), rank() == 0);
  const auto ids = strategy.run([] { return get_replica_context().replica_id_in_sync_group(); });
  for (int r = 0; r < kDevices; ++r) EXPECT_EQ(ids[static_cast<size_t>(r)], rank() * kDevices + r);
  const auto values =
      strategy.values_from_function([](ValueContext context) { return context.replica_id_in_sync_group; });
  EXPECT_EQ(values.values(), ids.values());
}

TEST_F(MultiWorker, GivesVariablesTheChiefsValues) {
  const auto make = [&] { return std::pair(variable(at::full({}, 10. + rank())), at::full({3}, 1.5 * rank())); };
  const auto [built, buffer] = strategy.build(make);
  EXPECT_EQ(numbers(gather(built)), std::vector<double>{10});
  EXPECT_EQ(numbers(gather(buffer)), (std::vector<double>{0, 0, 0}));
  Variable in_scope;
  {
    const auto scope = strategy.scope();
    in_scope = variable(at::full({2}, 3. + rank()));
  }
  strategy.run([] {});
  EXPECT_EQ(numbers(gather(in_scope)), (std::vector<double>{3, 3}));
  const auto open = strategy.scope();
  const Tensor in_open_scope = at::full({2}, 4. + rank());
  strategy.run([&] { EXPECT_EQ(numbers(local(in_open_scope)), (std::vector<double>{4, 4})); });
}

TEST_F(MultiWorker, ReducesAndGathersOverAllReplicas) {
  const auto values = strategy.run([] {
    const int id = get_replica_context().replica_id_in_sync_group();
    return at::tensor({id + 1., 10. * (id + 1)}, at::kFloat);
  });
  const double n = size() * kDevices, sum = n * (n + 1) / 2;
  EXPECT_EQ(numbers(strategy.reduce(ReduceOp::sum, values)), (std::vector<double>{sum, 10 * sum}));
  EXPECT_EQ(numbers(strategy.reduce(ReduceOp::mean, values)), (std::vector<double>{sum / n, 10 * sum / n}));
  EXPECT_EQ(numbers(strategy.reduce(ReduceOp::mean, values, 0)), std::vector<double>{5.5 * sum / n});
  const auto ids = strategy.run([] { return int64_t{get_replica_context().replica_id_in_sync_group()}; });
  EXPECT_EQ(strategy.reduce(ReduceOp::sum, ids), static_cast<int64_t>(n * (n - 1) / 2));
  EXPECT_EQ(numbers(strategy.reduce(ReduceOp::sum, at::full({}, 1. + rank()))),
            std::vector<double>{size() * (size() + 1) / 2.});

  const auto rows = strategy.run([] {
    const int id = get_replica_context().replica_id_in_sync_group();
    return at::full({id + 1, 2}, id);
  });
  std::vector<double> expected;
  for (int id = 0; id < size() * kDevices; ++id) expected.insert(expected.end(), static_cast<size_t>(2 * (id + 1)), id);
  EXPECT_EQ(numbers(strategy.gather(rows, 0)), expected);
}

// They lie in memory that the processes share, where there is such; each process keeps others of them.
TEST_F(MultiWorker, SumsAreTheProcessesOwnWhileLaterOnesAreTaken) {
  const double n = size() * kDevices;
  std::vector<std::pair<Tensor, double>> kept;
  for (int step = 0; step < 12; ++step) {
    const auto values = strategy.run([&] {
      const int id = get_replica_context().replica_id_in_sync_group();
      return at::full({50'000}, static_cast<float>(step + id));
    });
    const Tensor sum = strategy.reduce(ReduceOp::sum, values);
    kept.emplace_back(sum, n * step + n * (n - 1) / 2);
    if (step % (rank() + 2) == 0) kept.erase(kept.begin());
    for (auto& [tensor, value] : kept) {
      EXPECT_TRUE(at::equal(tensor, at::full({50'000}, static_cast<float>(value)))) << step;
      const at::NoGradGuard no_grad;
      Tensor(tensor).add_(rank() + 1);
      value += rank() + 1;
    }
  }
}

// The collectives of replicas and their gradients, of any strategy.
std::vector<Tensor> collectives(Strategy& strategy) {
  const auto results = strategy.run([] {
    const auto context = get_replica_context();
    const double id = context.replica_id_in_sync_group();
    Tensor x = at::full({2}, id + 1).set_requires_grad(true);
    const Tensor sum = context.all_reduce(ReduceOp::sum, x * x);
    const Tensor all = context.all_gather(x * 2, 0);
    (sum.sum() * (id + 1) + (all * all).sum() * (id + 2)).backward();
    return at::cat({sum.detach(), all.detach(), x.grad()});
  });
  return {strategy.reduce(ReduceOp::sum, results), strategy.gather(results, 0)};
}

TEST_F(MultiWorker, HasTheCollectivesOfOneProcess) {
  const auto ours = collectives(strategy), expected = collectives(one_process);
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i], expected[i])) << ours[i] << expected[i];
}

struct Net {
  Tensor hidden, bias, out, unused;
};

Net make_net() {
  return {at::randn({8, 16}).mul_(0.3).set_requires_grad(true), at::zeros({16}).set_requires_grad(true),
          at::randn({16, 1}).mul_(0.3).set_requires_grad(true), at::zeros({2}).set_requires_grad(true)};
}

// Losses and final weights of a loop whose gradients are clipped and stepped outside of run. `mask` leaves a replica's
// gradient out.
std::vector<Tensor> train(Strategy& strategy, const std::function<bool(int replica, int step)>& mask = {}) {
  set_random_seed(11);
  const Net net = strategy.build(make_net);
  const Tensor x = at::randn({24, 8}), y = x.sum(1, /*keepdim=*/true);
  std::vector<Tensor> results;
  for (int step = 0; step < 10; ++step) {
    const auto losses = strategy.run(
        [&](const Tensor& x, const Tensor& y) {
          const Tensor hidden = at::dropout(at::linear(x, net.hidden.t(), net.bias).relu(), 0.2, /*train=*/true);
          const Tensor loss = compute_average_loss((hidden.mm(net.out) - y).square());
          if (!mask || mask(get_replica_context().replica_id_in_sync_group(), step)) loss.backward();
          return loss.detach();
        },
        strategy.distribute(x), strategy.distribute(y));
    const at::NoGradGuard no_grad;
    for (Tensor parameter : {net.hidden, net.bias, net.out})
      if (parameter.grad().defined()) {
        parameter.sub_(parameter.grad(), 0.05);
        parameter.mutable_grad().reset();
      }
    EXPECT_FALSE(net.unused.grad().defined());
    results.push_back(strategy.reduce(ReduceOp::sum, losses));
  }
  check_in_sync({net.hidden, net.bias, net.out});
  for (const Tensor& parameter : {net.hidden, net.bias, net.out}) results.push_back(gather(parameter).detach());
  return results;
}

void expect_close(const std::vector<Tensor>& ours, const std::vector<Tensor>& expected) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    const double largest = std::max(1.0, expected[i].abs().max().item<double>());
    EXPECT_LT((ours[i] - expected[i]).abs().max().item<double>(), 1e-6 * largest) << "result " << i;
  }
}

TEST_F(MultiWorker, TrainsAsOneProcessWithAsManyReplicas) { expect_close(train(strategy), train(one_process)); }

TEST_F(MultiWorker, CountsGradientsThatAProcessLacksAsZero) {
  const auto mask = [](int replica, int step) { return replica == step % 2 * (kDevices * 2 - 1); };
  expect_close(train(strategy, mask), train(one_process, mask));
}

// Where replica `id` has a gradient that is sparse or dense, or none.
Tensor embedding_gradient(Strategy& strategy, const std::function<char(int id)>& kind_of) {
  const Tensor table = strategy.build([] { return at::ones({5, 2}).set_requires_grad(true); });
  strategy.run([&] {
    const int id = get_replica_context().replica_id_in_sync_group();
    const Tensor rows = at::embedding(table, at::full({3}, id % 5, at::kLong), -1, false, kind_of(id) == 's');
    if (kind_of(id) != '-') (rows * (id + 1)).sum().backward();
  });
  const Tensor gradient = gather(table.grad());
  return gradient.is_sparse() ? gradient.to_dense() : gradient;
}

TEST_F(MultiWorker, SumsSparseGradientsThatSomeProcessesLackOrHaveDense) {
  const auto of_one_process = [](int id) { return id / kDevices == 1 ? 's' : '-'; };
  const auto of_one_replica = [](int id) { return id == 0 ? 's' : '-'; };
  const auto dense_elsewhere = [](int id) { return id / kDevices == 1 ? 'd' : 's'; };
  const auto dense_in_one = [](int id) { return id / kDevices == 0 ? 'd' : id / kDevices == 1 ? 's' : '-'; };
  for (const std::function<char(int)>& kind_of :
       {std::function<char(int)>(of_one_process), {of_one_replica}, {dense_elsewhere}, {dense_in_one}}) {
    Tensor expected = at::zeros({5, 2});
    for (int id = 0; id < size() * kDevices; ++id)
      if (kind_of(id) != '-') expected[id % 5] += 3. * (id + 1);
    const Tensor gradient = embedding_gradient(strategy, kind_of);
    EXPECT_TRUE(at::equal(gradient, expected)) << gradient << expected;
  }
}

TEST_F(MultiWorker, DrawsOtherPicturesInEachReplicaAsOneProcessDoes) {
  const auto draw = [](Strategy& strategy) {
    const keras::layers::RandomBrightness layer({.factor = {-0.5, 0.5}, .seed = 3});
    return strategy.gather(strategy.run([&] { return layer(at::full({1, 2, 2, 3}, 100.), {.training = true}); }), 0);
  };
  const Tensor ours = draw(strategy);
  EXPECT_TRUE(at::equal(ours, draw(one_process)));
  for (int id = 1; id < size() * kDevices; ++id) EXPECT_FALSE(at::equal(ours[0], ours[id])) << id;
}

TEST_F(MultiWorker, TakesTheMeanOfGradientsWhereAsked) {
  const auto gradient = [](Strategy& strategy) {
    const Tensor w =
        strategy.build([] { return at::ones({2}).set_requires_grad(true); }, {.gradients = ReduceOp::mean});
    strategy.run([&] { (w * (get_replica_context().replica_id_in_sync_group() + 1)).sum().backward(); });
    const Tensor first = gather(w.grad()).clone();
    strategy.run([&] { (w * 2).sum().backward(); });  // what global view has counts once
    return at::cat({first, gather(w.grad())});
  };
  EXPECT_TRUE(at::equal(gradient(strategy), gradient(one_process)));
}

TEST_F(MultiWorker, AccumulatesGradientsOverRunsOnce) {
  const auto gradient = [](Strategy& strategy) {
    const Tensor w = strategy.build([] { return at::ones({2}).set_requires_grad(true); });
    const auto run = [&] {
      strategy.run([&] { (w * (get_replica_context().replica_id_in_sync_group() + 1)).sum().backward(); });
    };
    run();
    const Tensor first = gather(w.grad()).clone();
    run();
    return at::cat({first, gather(w.grad())});
  };
  EXPECT_TRUE(at::equal(gradient(strategy), gradient(one_process)));
}

TEST_F(MultiWorker, AggregatesWhatReplicasLeftInBuffers) {
  const auto buffers = [](Strategy& strategy) {
    const auto [mean, count] = strategy.build([] { return std::pair(at::zeros({2}), at::zeros({}, at::kLong)); });
    strategy.run([&, mean = mean, count = count] {
      const int id = get_replica_context().replica_id_in_sync_group();
      mean.fill_(id * 0.7);
      count.add_(id + 3);
    });
    return std::vector{gather(mean), gather(count)};
  };
  const auto ours = buffers(strategy), expected = buffers(one_process);
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i], expected[i])) << ours[i] << expected[i];
}

TEST_F(MultiWorker, AssignsAsOneProcessDoes) {
  const auto values = [](Strategy& strategy) {
    const auto make = [](VariableAggregation aggregation, VariableSynchronization synchronization) {
      return variable(at::full({2}, 4.), {.aggregation = aggregation, .synchronization = synchronization});
    };
    std::vector<Tensor> results;
    for (const auto aggregation :
         {VariableAggregation::sum, VariableAggregation::mean, VariableAggregation::only_first_replica}) {
      const auto [mirrored, on_read, rows] = strategy.build([&] {
        return std::tuple(make(aggregation, VariableSynchronization::on_write),
                          make(aggregation, VariableSynchronization::on_read),
                          variable(at::zeros({3, 2}), {.aggregation = VariableAggregation::sum}));
      });
      on_read.assign(at::full({2}, 6.));
      strategy.run([&, mirrored = mirrored, on_read = on_read, rows = rows] {
        const int id = get_replica_context().replica_id_in_sync_group();
        mirrored.assign(at::full({2}, id + 0.25));
        on_read.assign_add(at::full({2}, id + 1.));
        rows.scatter_add(at::full({1}, id % 3, at::kLong), at::full({1, 2}, id + 1.));
      });
      for (const Tensor& variable : {Tensor(mirrored), Tensor(on_read), Tensor(rows)})
        results.push_back(gather(variable));
    }
    return results;
  };
  const auto ours = values(strategy), expected = values(one_process);
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(at::equal(ours[i], expected[i])) << i << ours[i] << expected[i];
}

TEST_F(MultiWorker, DrawsTheNumbersOfOneProcess) {
  const auto draw = [](Strategy& strategy) {
    set_random_seed(5);
    return strategy.gather(strategy.run([] { return at::randn({3}); }), 0);
  };
  EXPECT_TRUE(at::equal(draw(strategy), draw(one_process)));
}

TEST_F(MultiWorker, NamesTheProcessThatIsOutOfSync) {
  const Variable w = strategy.build([] { return variable(at::zeros({3}), {.name = "w"}); });
  strategy.run([&] { local(w).detach()[1] = rank() == size() - 1 ? 5 : 0; });
  EXPECT_THAT(error_of([&] { check_in_sync(w); }),
              HasSubstr(str("'w' of shape [3]: worker ", size() - 1, " has at [1]: 5")));
}

TEST_F(MultiWorker, StepsAnOptimizerInsideOfRun) {
  const auto step = [](Strategy& strategy) {
    const Variable w = strategy.build([] { return variable(at::ones({4})); });
    strategy.run([&] {
      const auto context = get_replica_context();
      (w * (context.replica_id_in_sync_group() + 1)).sum().backward();
      context.merge_call([&](Strategy&) {
        const at::NoGradGuard no_grad;
        Tensor(w).sub_(w.grad(), 0.125);
      });
    });
    return gather(w).detach();
  };
  EXPECT_TRUE(at::equal(step(strategy), step(one_process)));
}

TEST_F(MultiWorker, BringsErrorsOfAllReplicasOutOfRunAndGoesOn) {
  EXPECT_THROW(strategy.run([] { throw std::domain_error("all throw"); }), std::domain_error);
  EXPECT_THAT(error_of([&] { strategy.run([&] { strategy.run([] {}); }); }), HasSubstr("a run cannot hold another"));
  EXPECT_EQ(numbers(strategy.reduce(ReduceOp::sum, strategy.run([] { return at::ones({}); }))),
            std::vector<double>{static_cast<double>(size() * kDevices)});
}

TEST_F(MultiWorker, SharesTheProcessesWithOtherStrategies) {
  MultiWorkerMirroredStrategy other({.devices = configure_logical_cpus(1), .communication_options = kCommunication});
  EXPECT_EQ(other.num_replicas_in_sync(), size());
  EXPECT_EQ(numbers(other.reduce(ReduceOp::sum, other.run([] { return at::ones({}); }))),
            std::vector<double>{1. * size()});
  EXPECT_THAT(error_of([] { MultiWorkerMirroredStrategy({.communication_options = {.bytes_per_pack = 7}}); }),
              HasSubstr("failed_precondition: the processes of this program have met with other"));
}

TEST_F(MultiWorker, RefusesUnequalNumbersOfDevices) {
  EXPECT_THAT(error_of([&] {
                MultiWorkerMirroredStrategy({.devices = configure_logical_cpus(1 + (rank() == size() - 1)),
                                             .communication_options = kCommunication});
              }),
              HasSubstr(str("worker ", size() - 1, " has 2 devices, worker 0 has 1")));
}

}  // namespace
}  // namespace tutti
