// What replicas draw in compiled functions, on XLA's CPU devices.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/error_of.h"
#include "tutti/function/function.h"
#include "tutti/tensor/random_seed.h"
#include "tutti/tensor/random_state.h"
#include "tutti/tpu/tpu_strategy.h"
#include "tutti/tpu/tpu_system.h"

namespace tutti::tpu {
namespace {

using testing::HasSubstr;

std::unique_ptr<TPUStrategy> drawing_strategy(int n) {
  const cluster::TPUClusterResolver resolver({.tpu = "local"}, cluster::Environment());
  initialize_tpu_system(resolver,
                        {.client_options = {{"cpu_device_count", int64_t{n}}},
                         .environment = cluster::Environment::Variables{{"TUTTI_PJRT_PLUGIN", TUTTI_XLA_CPU_PLUGIN}}});
  auto strategy = std::make_unique<TPUStrategy>(resolver);
  shutdown_tpu_system();
  return strategy;
}

class DrawingReplicas : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(TUTTI_XLA_CPU_PLUGIN))
      GTEST_SKIP() << "there is no plugin here: ./dev test -L pjrt fetches it";
  }
  void TearDown() override { set_random_seed(0); }
};

// Noise of every kind, in each replica.
Tensor noise() {
  const Tensor x = at::ones({4, 8});
  return at::stack({at::rand({4, 8}), at::randn_like(x), at::empty({4, 8}).uniform_(-1, 1), at::dropout(x, 0.5, true),
                    at::bernoulli(x * 0.25), at::randint(0, 9, {4, 8}).to(at::kFloat)});
}
auto drawing(TPUStrategy& strategy) {
  return function([&strategy] { return strategy.run(noise); }, {.name = "draw"});
}

TEST_F(DrawingReplicas, HaveTheSameNumbersHoweverManyTheyAre) {
  std::vector<PerReplica<Tensor>> seen;
  for (const int n : {1, 2, 4}) {
    const auto strategy = drawing_strategy(n);
    const auto draw = drawing(*strategy);
    for (int i = 0; i < 2; ++i) draw();
    set_random_seed(5);
    draw();
    seen.push_back(draw());  // the second step with this seed
  }
  EXPECT_TRUE(at::equal(seen[0][0], seen[1][0]));
  for (size_t r : {0, 1}) EXPECT_TRUE(at::equal(seen[1][r], seen[2][r])) << r;
  for (size_t r : {1, 2, 3})
    for (int64_t kind : {0, 1, 2})
      EXPECT_FALSE((seen[2][0][kind] == seen[2][r][kind]).any().item<bool>()) << "replica " << r << ", kind " << kind;
}

TEST_F(DrawingReplicas, DrawAnewInEachStepAndAgainWithTheSameSeed) {
  const auto strategy = drawing_strategy(2);
  const auto draw = drawing(*strategy);
  for (int i = 0; i < 2; ++i) draw();
  set_random_seed(3);
  const Tensor first = draw()[1], second = draw()[1];
  for (int64_t kind : {0, 1, 2}) EXPECT_FALSE((first[kind] == second[kind]).any().item<bool>()) << kind;
  EXPECT_FALSE((first[0] == first[2]).any().item<bool>()) << "two calls of a step";
  const Tensor dropped = first[3];
  EXPECT_TRUE(((dropped == 0) | (dropped == 2)).all().item<bool>());
  set_random_seed(3);
  EXPECT_TRUE(at::equal(draw()[1], first));
  set_random_seed(4);
  EXPECT_FALSE(at::equal(draw()[1], first));
}

TEST_F(DrawingReplicas, GoOnWhereASavedStateWas) {
  const auto strategy = drawing_strategy(2);
  const auto draw = drawing(*strategy);
  for (int i = 0; i < 3; ++i) draw();
  const Tensor state = random_state();
  const Tensor wanted = draw()[0];
  draw();
  restore_random_state(state);
  EXPECT_TRUE(at::equal(draw()[0], wanted));
}

TEST_F(DrawingReplicas, HaveWhatGlobalViewDraws) {
  const auto strategy = drawing_strategy(2);
  const auto draw = function([&] {
    const auto own = strategy->run([] { return at::rand({16}); });
    const Tensor all = at::rand({16});
    return std::tuple(own, all, all + 1);
  });
  for (int i = 0; i < 2; ++i) draw();
  const auto [own, all, more] = draw();
  EXPECT_TRUE(at::equal(all + 1, more));
  for (size_t r : {0, 1}) EXPECT_FALSE((own[r] == all).any().item<bool>());
}

TEST_F(DrawingReplicas, HaveNoGeneratorOfTheProgram) {
  const auto strategy = drawing_strategy(2);
  at::Generator generator = make_generator(1, c10::kCPU);
  const auto draw = function([&] { return strategy->run([&] { return at::empty({4}).uniform_(0, 1, generator); }); });
  draw();
  EXPECT_THAT(error_of([&] { draw(); }), HasSubstr("draws from a generator of the program's own"));
}

TEST_F(DrawingReplicas, HaveNoPermutations) {
  const auto strategy = drawing_strategy(2);
  const auto shuffle = function([&] { return strategy->run([] { return at::randperm(4); }); }, {.name = "shuffle"});
  shuffle();
  EXPECT_THAT(error_of([&] { shuffle(); }), HasSubstr("aten::randperm cannot be compiled for an accelerator yet"));
}

}  // namespace
}  // namespace tutti::tpu
