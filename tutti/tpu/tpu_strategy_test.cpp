// Functions that run replicas, on XLA's CPU devices and on the fake plugin's.
#include "tutti/tpu/tpu_strategy.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/optimizer.h>

#include <filesystem>

#include "tests/support/error_of.h"
#include "tests/support/fake_pjrt_plugin.h"
#include "tutti/core/str.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/distribute/optimizer.h"
#include "tutti/function/function.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tpu/tpu_system.h"

namespace tutti::tpu {
namespace {

using cluster::Environment;
using cluster::TPUClusterResolver;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Batch = PerReplica<std::tuple<Tensor, Tensor>>;

// The seeds' lines. The strategy keeps the devices.
std::unique_ptr<TPUStrategy> strategy_on(const char* plugin, pjrt::NamedValues options = {}) {
  const TPUClusterResolver resolver({.tpu = "local"}, Environment());
  connect_to_cluster(resolver);
  initialize_tpu_system(resolver, {.client_options = std::move(options),
                                   .environment = Environment::Variables{{"TUTTI_PJRT_PLUGIN", plugin}}});
  auto strategy = std::make_unique<TPUStrategy>(resolver);
  shutdown_tpu_system();
  return strategy;
}
std::unique_ptr<TPUStrategy> strategy_on_cpus(int n) {
  return strategy_on(TUTTI_XLA_CPU_PLUGIN, {{"cpu_device_count", int64_t{n}}});
}

#define SKIP_WITHOUT_XLA_DEVICES()                    \
  if (!std::filesystem::exists(TUTTI_XLA_CPU_PLUGIN)) \
  GTEST_SKIP() << "there is no plugin here: ./dev test -L pjrt fetches it"

std::string error_text(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

Tensor weight(Strategy& strategy, at::IntArrayRef sizes, double scale) {
  return strategy.build([&] { return (at::randn(sizes) * scale).set_requires_grad(true); });
}

struct NoOptions : torch::optim::OptimizerCloneableOptions<NoOptions> {};

class MomentumSgd : public torch::optim::Optimizer {
 public:
  explicit MomentumSgd(const std::vector<Tensor>& weights) : Optimizer(weights, std::make_unique<NoOptions>()) {}

  Tensor step(LossClosure) override {
    const at::NoGradGuard no_grad;
    const auto& weights = param_groups()[0].params();
    for (size_t i = 0; i < weights.size(); ++i) {
      if (momenta_.size() == i) momenta_.push_back(at::zeros_like(weights[i]));
      weights[i].sub_(momenta_[i].mul_(0.9).add_(weights[i].grad()), 0.05);
    }
    return {};
  }

 private:
  std::vector<Tensor> momenta_;
};

struct Perceptron {
  explicit Perceptron(Strategy& used) : strategy(used) {
    at::manual_seed(3);
    weights = {weight(used, {24, 10}, 0.3), weight(used, {24}, 0.1), weight(used, {5, 24}, 0.3),
               weight(used, {5}, 0.1)};
    optimizer.emplace(MomentumSgd(weights));
  }

  Tensor logits(const Tensor& x) const {
    return at::linear(at::relu(at::linear(x, weights[0], weights[1])), weights[2], weights[3]);
  }
  Tensor train(const Batch& batch) {
    const auto losses = strategy.run(
        [&](const Tensor& x, const Tensor& y) {
          optimizer->zero_grad();
          const Tensor loss = at::cross_entropy_loss(logits(x), y) / strategy.num_replicas_in_sync();
          loss.backward();
          optimizer->step();
          return loss.detach();
        },
        batch);
    return strategy.reduce(ReduceOp::sum, losses);
  }

  Strategy& strategy;
  std::vector<Tensor> weights;
  std::optional<Optimizer<MomentumSgd>> optimizer;
};

std::tuple<Tensor, Tensor> random_batch(int rows) {
  const Tensor x = at::randn({rows, 10});
  return {x, x.narrow(1, 0, 5).argmax(1)};
}

class TpuStrategyOn : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_XLA_DEVICES();
    tpu_ = strategy_on_cpus(n_);
    ASSERT_EQ(tpu_->num_replicas_in_sync(), n_);
  }

  const int n_ = GetParam();
  std::unique_ptr<TPUStrategy> tpu_;
  MirroredStrategy mirrored_{{.devices = configure_logical_cpus(n_)}};
};
INSTANTIATE_TEST_SUITE_P(Devices, TpuStrategyOn, testing::Values(1, 2, 4, 8), testing::PrintToStringParamName());

TEST_P(TpuStrategyOn, TrainsAsMirroredStrategyDoes) {
  Perceptron there(*tpu_), here(mirrored_);
  const auto step = function([&](const Batch& batch) { return there.train(batch); }, {.name = "train"});
  double first = 0, last = 0;
  for (int i = 0; i < 100; ++i) {
    at::manual_seed(i);
    const auto batch = random_batch(16);
    const Tensor made = step(tpu_->distribute(batch)), wanted = here.train(mirrored_.distribute(batch));
    last = made.item<double>();
    ASSERT_NEAR(last, wanted.item<double>(), 1e-4) << "step " << i;
    if (i == 0) first = last;
  }
  EXPECT_LT(last, first / 2);
  EXPECT_LE(step.tracing_count(), 3);
  for (size_t i = 0; i < here.weights.size(); ++i) {
    const Tensor made = gather(there.weights[i].detach()), wanted = gather(here.weights[i].detach());
    EXPECT_TRUE(at::allclose(made, wanted, 1e-3, 1e-4)) << i;
    EXPECT_TRUE(at::allclose(gather(there.weights[i].grad()), gather(here.weights[i].grad()), 1e-2, 1e-4)) << i;
  }
}

TEST_P(TpuStrategyOn, MovesTheBatchAndTheLossOfAStepAndNoVariable) {
  Perceptron there(*tpu_);
  const auto step = function([&](const Batch& batch) { return there.train(batch); });
  const auto batch = tpu_->distribute(random_batch(16));
  for (int i = 0; i < 5; ++i) step(batch);
  const Traffic before = tpu_->traffic();
  step(batch);
  EXPECT_EQ(tpu_->traffic().sent - before.sent, 16 * (10 * 4 + 8));
  EXPECT_EQ(tpu_->traffic().received - before.received, 4);
}

TEST_P(TpuStrategyOn, VariablesComeHomeWhereTheyAreReadAndGoBackWhereTheyAreWritten) {
  const Tensor w = tpu_->build([] { return at::zeros({3}); });
  const auto add = function([&](const PerReplica<Tensor>& x) {
    tpu_->run(
        [&](const Tensor& own) {
          get_replica_context().merge_call(
              [&](Strategy&, const PerReplica<Tensor>& all) { Tensor(w).add_(tpu_->reduce(ReduceOp::sum, all)); },
              own.sum(0));
        },
        x);
  });
  const auto ones = tpu_->distribute(at::ones({8, 3}));
  for (int i = 1; i <= 8; ++i) {
    add(ones);
    if (i == 4) {
      EXPECT_EQ(gather(w).sum().item<double>(), 3 * 4 * 8);
    }
    if (i == 6) Tensor(w).fill_(100);
    if (i == 7) {
      EXPECT_EQ(Tensor(w).select(0, 1).item<double>(), 108);
    }
  }
  EXPECT_EQ((w + 0).sum().item<double>(), 3 * 116);
}

TEST_P(TpuStrategyOn, ReplicasHaveTheirOwnResultsAndState) {
  const auto [mean, variance] = tpu_->build([] { return std::pair(at::zeros({3}), at::ones({3})); });
  const auto [own_mean, own_variance] = mirrored_.build([] { return std::pair(at::zeros({3}), at::ones({3})); });
  const auto forward = [](const Tensor& x, const Tensor& m, const Tensor& v) {
    return at::batch_norm(x, {}, {}, local(m), local(v), true, 0.1, 1e-5, false);
  };
  const auto there = function([&](const PerReplica<Tensor>& x) {
    return tpu_->run([&](const Tensor& own) { return forward(own, mean, variance); }, x);
  });
  for (int i = 0; i < 6; ++i) {
    const Tensor x = at::randn({16, 3});
    const auto made = there(tpu_->distribute(x));
    const auto wanted =
        mirrored_.run([&](const Tensor& own) { return forward(own, own_mean, own_variance); }, mirrored_.distribute(x));
    for (size_t r = 0; r < made.size(); ++r) EXPECT_TRUE(at::allclose(made[r], wanted[r], 1e-4, 1e-5)) << i << ' ' << r;
    EXPECT_TRUE(at::allclose(gather(mean), gather(own_mean), 1e-4, 1e-5)) << i;
    EXPECT_TRUE(at::allclose(gather(variance), gather(own_variance), 1e-4, 1e-5)) << i;
  }
}

TEST_P(TpuStrategyOn, SumsAndMeansOfReplicasAreThoseOfTheHost) {
  const auto both = function([&](const PerReplica<Tensor>& x) {
    const auto scaled = tpu_->run(
        [](const Tensor& own) {
          const ReplicaContext context = get_replica_context();
          return own.mean() / context.all_reduce(ReduceOp::sum, own.square().mean()) +
                 context.all_reduce(ReduceOp::mean, own.sum());
        },
        x);
    return std::tuple(tpu_->reduce(ReduceOp::sum, scaled), tpu_->reduce(ReduceOp::mean, scaled), scaled);
  });
  const auto x = tpu_->distribute(at::randn({8, 2}));
  const auto [sum, mean, scaled] = both(x);
  both(x);
  const auto [sum_there, mean_there, scaled_there] = both(x);
  EXPECT_TRUE(at::allclose(sum_there, sum, 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(mean_there, mean, 1e-5, 1e-6));
  for (size_t r = 0; r < scaled.size(); ++r) EXPECT_TRUE(at::allclose(scaled_there[r], scaled[r], 1e-5, 1e-6));
  EXPECT_GT(tpu_->traffic().received, 0);
}

class TpuStrategyOfTwo : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_XLA_DEVICES();
    tpu_ = strategy_on_cpus(2);
  }
  std::unique_ptr<TPUStrategy> tpu_;
};

TEST_F(TpuStrategyOfTwo, AFunctionThatReadsTheVariablesOfAnotherFindsThemThere) {
  Perceptron there(*tpu_);
  const auto train = function([&](const Batch& batch) { return there.train(batch); });
  const auto predict = function([&](const PerReplica<Tensor>& x) {
    return tpu_->run([&](const Tensor& own) { return there.logits(own).detach(); }, x);
  });
  const auto [x, y] = random_batch(8);
  const auto batch = tpu_->distribute(std::tuple(x, y));
  const auto inputs = tpu_->distribute(x);
  for (int i = 0; i < 4; ++i) train(batch), predict(inputs);
  const Traffic before = tpu_->traffic();
  train(batch), predict(inputs), predict(inputs);
  EXPECT_EQ(tpu_->traffic().sent - before.sent, 3 * 8 * 40 + 8 * 8);
  const auto predicted = predict(inputs);
  const Tensor wanted = gather(there.logits(x).detach());
  EXPECT_TRUE(at::allclose(tpu_->gather(predicted, 0), wanted, 1e-4, 1e-5));
}

TEST_F(TpuStrategyOfTwo, APlainTensorOnTheMemoryOfAVariableThatIsAwaySaysSo) {
  Perceptron there(*tpu_);
  const Tensor plain = gather(there.weights[1].detach());
  const auto train = function([&](const Batch& batch) { return there.train(batch); });
  for (int i = 0; i < 4; ++i) train(tpu_->distribute(random_batch(8)));
  EXPECT_THAT(error_text([&] { plain.sum(); }), HasSubstr("is on the devices of a TPUStrategy"));
  EXPECT_TRUE(at::equal(gather(there.weights[1].detach()), plain));  // home again
}

TEST_F(TpuStrategyOfTwo, VariablesOutliveTheStrategy) {
  std::optional<Perceptron> there(std::in_place, *tpu_);
  const auto weights = there->weights;
  {
    const auto train = function([&](const Batch& batch) { return there->train(batch); });
    for (int i = 0; i < 4; ++i) train(tpu_->distribute(random_batch(8)));
  }
  there.reset();
  tpu_.reset();
  for (const Tensor& each : weights) EXPECT_TRUE(gather(each.detach()).isfinite().all().item<bool>());
}

TEST_F(TpuStrategyOfTwo, TakesArgumentsOfAnyStridesAndDtypesAndGivesThemBack) {
  const Tensor w = tpu_->build([] { return at::full({3}, 2.0); });
  const auto mix = function([&](const PerReplica<Tensor>& x, const Tensor& scale, const Tensor& mask) {
    const auto [sums, halves] = tpu_->run(
        [&](const Tensor& own) {
          return std::pair((own * scale).masked_fill(mask, 0) + local(w), own.to(at::kHalf).t().contiguous());
        },
        x);
    return std::tuple(sums, halves, scale, w, x[1]);
  });
  const Tensor scale = at::arange(8, at::kInt).view({2, 4}).slice(1, 0, 3);  // strides with a gap
  const Tensor mask = at::eye(3, at::kBool).slice(0, 0, 2);
  for (int i = 0; i < 5; ++i) {
    const PerReplica<Tensor> x({at::randn({3, 2}).t(), at::randn({3, 2}).t()});
    const auto [sums, halves, same_scale, same_w, second] = mix(x, scale, mask);
    for (size_t r = 0; r < 2; ++r) {
      EXPECT_TRUE(at::allclose(sums[r], (x[r] * scale).masked_fill(mask, 0) + 2)) << i;
      EXPECT_TRUE(at::equal(halves[r], x[r].to(at::kHalf).t())) << i;
      EXPECT_EQ(halves[r].strides(), (at::IntArrayRef{2, 1})) << i;
    }
    EXPECT_TRUE(at::equal(same_scale, scale));
    EXPECT_TRUE(same_w.is_same(w));
    EXPECT_EQ(gather(same_w).sum().item<double>(), 6);
    EXPECT_TRUE(at::equal(second, x[1]));
  }
}

TEST_F(TpuStrategyOfTwo, TakesBatchesWithoutRows) {
  const auto sum = function([&](const PerReplica<Tensor>& x) {
    return tpu_->reduce(ReduceOp::sum, tpu_->run([](const Tensor& own) { return own.sum() + 1; }, x));
  });
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(sum(PerReplica<Tensor>({at::ones({0, 3}), at::ones({0, 3})})).item<double>(), 2);
}

TEST_F(TpuStrategyOfTwo, AVariableGoesFromTheDevicesOfOneStrategyToThoseOfAnother) {
  const auto other = strategy_on_cpus(2);
  const Tensor w = tpu_->build([] { return at::zeros({3}); });
  const auto add = [&](TPUStrategy& strategy) {
    return function([&] {
      strategy.run([&] {
        get_replica_context().merge_call([&](Strategy&) {
          const at::NoGradGuard no_grad;
          Tensor(w).add_(1);
        });
      });
    });
  };
  const auto here = add(*tpu_), there = add(*other);
  for (int i = 0; i < 4; ++i) here(), there();
  EXPECT_EQ(gather(w).sum().item<double>(), 24);
}

TEST_F(TpuStrategyOfTwo, RefusesReplicasThatDiffer) {
  const auto square =
      function([&](const PerReplica<Tensor>& x) { return tpu_->run([](const Tensor& own) { return own * own; }, x); },
               {.name = "square"});
  const PerReplica<Tensor> ragged({at::ones({2}), at::ones({3})});
  square(ragged);
  EXPECT_THAT(error_of([&] { square(ragged); }),
              AllOf(StartsWith("unimplemented: square: aten::mul.Tensor gets float32 [2] in replica 0 and float32 [3]"),
                    HasSubstr("drop_remainder")));
  const auto numbered = function(
      [&] { return tpu_->run([] { return at::ones({2}) * get_replica_context().replica_id_in_sync_group(); }); });
  numbered();
  EXPECT_THAT(error_of([&] { numbered(); }), HasSubstr("differ in a number"));
}

TEST_F(TpuStrategyOfTwo, RefusesWhatCompiledProgramsCannotDo) {
  const auto x = tpu_->distribute(at::ones({4, 2}));
  const auto writes = function(
      [&](const PerReplica<Tensor>& batch) { tpu_->run([](const Tensor& own) { Tensor(own).add_(1); }, batch); });
  writes(x);
  EXPECT_THAT(error_of([&] { writes(x); }), HasSubstr("writes in place to its argument"));
  const auto raises = function(
      [&](const PerReplica<Tensor>& batch) {
        return tpu_->run([](const Tensor& own) { return at::linalg_matrix_exp(own); }, batch);
      },
      {.name = "exponential"});
  raises(x);
  EXPECT_THAT(error_of([&] { raises(x); }),
              AllOf(HasSubstr("aten::linalg_matrix_exp"), HasSubstr("of the function exponential")));
}

void set_fault(pjrt::Fault fault) {
  void* const library = dlopen(TUTTI_FAKE_PJRT_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
  reinterpret_cast<pjrt::SetFault>(dlsym(library, "set_fault"))(fault);
  dlclose(library);
}

TEST(TpuStrategy, NeedsAnInitializedSystem) {
  EXPECT_THAT(error_of([] { TPUStrategy(TPUClusterResolver({.tpu = "local"}, Environment())); }),
              StartsWith("failed_precondition: the TPU system is not initialized"));
  EXPECT_THAT(error_of([] { TPUStrategy(TPUClusterResolver({.tpu = "grpc://a:8470"}, Environment())); }),
              StartsWith("unimplemented: the TPU at grpc://a:8470"));
}

TEST(TpuStrategy, RunsFunctionsAlone) {
  const auto strategy = strategy_on(TUTTI_FAKE_PJRT_PLUGIN);
  EXPECT_EQ(strategy->name(), "TPUStrategy");
  EXPECT_EQ(strategy->num_replicas_in_sync(), 2);
  EXPECT_THAT(error_of([&] { strategy->run([] {}); }),
              StartsWith("unimplemented: TPUStrategy.run(fn, ...) does not support pure eager execution"));
}

TEST(TpuStrategy, TheThirdCallRunsOnTheDevices) {
  const auto strategy = strategy_on(TUTTI_FAKE_PJRT_PLUGIN);
  const auto twice = function(
      [&](const PerReplica<Tensor>& x) { return strategy->run([](const Tensor& own) { return own * 2; }, x); });
  const PerReplica<Tensor> x({at::full({2}, 3.0), at::full({2}, 5.0)});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(twice(x)[1].sum().item<double>(), 20);
  const auto echoed = twice(x);  // the fake's programs give their first argument back
  EXPECT_EQ(echoed[0].sum().item<double>(), 6);
  EXPECT_EQ(echoed[1].sum().item<double>(), 10);
}

TEST(TpuStrategy, AFailedRunLeavesVariablesAndTheStrategyUsable) {
  const auto strategy = strategy_on(TUTTI_FAKE_PJRT_PLUGIN);
  const Tensor w = strategy->build([] { return at::ones({2}); });
  const auto plus = function(
      [&](const PerReplica<Tensor>& x) { return strategy->run([&](const Tensor& own) { return own + local(w); }, x); });
  const PerReplica<Tensor> x({at::full({2}, 3.0), at::full({2}, 5.0)});
  for (int i = 0; i < 3; ++i) plus(x);
  for (const auto fault : {pjrt::Fault::failed_run, pjrt::Fault::failed_put, pjrt::Fault::failed_event}) {
    set_fault(fault);
    EXPECT_NE(error_of([&] { plus(x); }), "no error");
    set_fault(pjrt::Fault::none);
    EXPECT_EQ(plus(x)[0].sum().item<double>(), 6);
  }
  EXPECT_EQ(gather(w).sum().item<double>(), 2);
}

TEST(TpuStrategy, RefusesReplicasOfSeveralCoresAndCoresThatAreTwoReplicas) {
  const TPUClusterResolver resolver({.tpu = "local"}, Environment());
  const Topology topology = initialize_tpu_system(
      resolver, {.environment = Environment::Variables{{"TUTTI_PJRT_PLUGIN", TUTTI_FAKE_PJRT_PLUGIN}}});
  const auto wide = DeviceAssignment::build(topology, {.computation_shape = {2, 1, 1, 1}});
  EXPECT_THAT(error_of([&] { TPUStrategy(resolver, {.device_assignment = wide}); }),
              StartsWith("unimplemented: TPUStrategy: replicas of 2 cores"));
  const DeviceAssignment same(topology, {{{1, 0, 0, 0}}, {{1, 0, 0, 0}}});
  EXPECT_THAT(error_of([&] { TPUStrategy(resolver, {.device_assignment = same}); }),
              HasSubstr("a core to two replicas"));
  const TPUStrategy second(resolver, {.device_assignment = DeviceAssignment(topology, {{{1, 0, 0, 0}}})});
  EXPECT_EQ(second.num_replicas_in_sync(), 1);
  shutdown_tpu_system();
}

}  // namespace
}  // namespace tutti::tpu
