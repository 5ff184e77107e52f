#include "tutti/keras/optimizers/optimizer.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tutti/keras/optimizers/adagrad.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::keras::optimizers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor variable() { return at::tensor({1.0, -2.0}).requires_grad_(); }
Tensor gradient() { return at::tensor({3.0, 4.0}); }

// The variable after `steps` updates with one gradient.
Tensor trained(const Optimizer& optimizer, int steps) {
  const Tensor w = variable();
  for (int step = 0; step < steps; ++step) optimizer.apply_gradients({gradient()}, {w});
  return w.detach();
}

TEST(SGD, FollowsItsFormulas) {
  const Tensor w = variable().detach();
  const Tensor g = gradient();
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 0.1}), 2), w - 0.2 * g));
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 0.1, .momentum = 0.5}), 2), w - (0.1 + 0.15) * g));
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 0.1, .momentum = 0.5, .nesterov = true}), 1), w - 0.15 * g));
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 0.1, .weight_decay = 0.5}), 1), 0.95 * w - 0.1 * g));
}

TEST(Adam, FollowsItsFormulas) {
  const Tensor g = gradient();
  const Tensor first_step = 0.1 * std::sqrt(0.001) * g / (std::sqrt(0.001) * g + 1e-3);
  EXPECT_TRUE(at::allclose(trained(Adam({.learning_rate = 0.1, .epsilon = 1e-3}), 1), variable() - first_step));
}

TEST(Adam, AmsgradKeepsTheLargestSecondMoment) {
  const Adam adam({.beta_2 = 0.5, .amsgrad = true});
  const Tensor w = variable();
  adam.apply_gradients({gradient()}, {w});
  adam.apply_gradients({0 * gradient()}, {w});
  const std::vector<Tensor> state = adam.impl()->state();
  ASSERT_EQ(state.size(), 3U);
  EXPECT_TRUE(at::allclose(state[1], 0.25 * gradient().square()));
  EXPECT_TRUE(at::allclose(state[2], 0.5 * gradient().square()));
}

TEST(Optimizer, ClipsInThreeWays) {
  const Tensor w = variable().detach();
  const Tensor g = gradient();  // norm 5
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 1, .clipnorm = 1}), 1), w - g / 5));
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 1, .clipnorm = 6}), 1), w - g));
  EXPECT_TRUE(at::allclose(trained(SGD({.learning_rate = 1, .clipvalue = 3.5}), 1), w - at::tensor({3.0, 3.5})));
  const SGD global({.learning_rate = 1, .global_clipnorm = 6.5});
  const Tensor a = variable(), b = variable();
  global.apply_gradients({g, at::tensor({12.0, 0.0})}, {a, b});  // together 13
  EXPECT_TRUE(at::allclose(a, w - g / 2));
  EXPECT_TRUE(at::allclose(b, w - at::tensor({6.0, 0.0})));
  EXPECT_THAT(error_of([] { SGD({.clipnorm = 1, .clipvalue = 1}); }), HasSubstr("set one of them"));
}

TEST(Optimizer, KeepsStatePerVariableInAnyOrder) {
  const SGD optimizer({.learning_rate = 1, .momentum = 1});
  const Tensor a = variable(), b = variable();
  optimizer.apply_gradients({gradient(), 0 * gradient()}, {a, b});
  optimizer.apply_gradients({0 * gradient(), 0 * gradient()}, {b, a});
  EXPECT_TRUE(at::allclose(a, variable() - 2 * gradient()));
  EXPECT_TRUE(at::allclose(b, variable()));
}

TEST(Optimizer, LeavesVariablesWithoutGradientAndSaysSo) {
  const CollectedWarnings warnings;
  const SGD optimizer({.learning_rate = 1});
  const Tensor a = variable(), b = variable();
  for (int i = 0; i < 2; ++i) optimizer.apply_gradients({gradient(), {}}, {a, b});
  EXPECT_EQ(warnings.lines().size(), 1U);
  EXPECT_TRUE(at::allclose(b, variable()));
  EXPECT_THAT(error_of([&] { optimizer.apply_gradients({Tensor()}, {a}); }), HasSubstr("no variable has a gradient"));
}

TEST(Optimizer, RefusesVariablesThatItWasNotBuiltWith) {
  const SGD optimizer;
  const Tensor a = variable(), b = variable();
  optimizer.build({a});
  optimizer.build({a});
  EXPECT_THAT(error_of([&] { optimizer.build({a, b}); }), HasSubstr("invalid_argument: SGD: variable 1 of shape [2]"));
  EXPECT_THAT(error_of([&] { optimizer.apply_gradients({gradient()}, {b}); }),
              HasSubstr("is none of the 1 that it was built with"));
  EXPECT_TRUE(at::equal(b, variable()));
}

TEST(Optimizer, RefusesAVariableThatIsListedTwice) {
  const SGD optimizer;
  const Tensor a = variable(), b = variable();
  EXPECT_THAT(error_of([&] { optimizer.build({a, a}); }), HasSubstr("variables 0 and 1 are the same"));
  optimizer.build({a, b});
  EXPECT_THAT(error_of([&] {
                optimizer.apply_gradients({gradient(), gradient()}, {b, b});
              }),
              HasSubstr("variables 0 and 1 are the same"));
}

TEST(Optimizer, RefusesGradientsOfAnotherShape) {
  EXPECT_THAT(error_of([] { SGD().apply_gradients({at::ones({3})}, {variable()}); }),
              HasSubstr("gradient 0 has shape [3], its variable has [2]"));
}

TEST(Optimizer, TakesGradientsOfAnotherDtypeOrderOrSparse) {
  const SGD optimizer({.learning_rate = 1});
  const Tensor w = at::zeros({2, 3}), dense = at::arange(6, at::kFloat).view({3, 2}).t();
  optimizer.apply_gradients({dense}, {w});
  EXPECT_TRUE(at::equal(w, -dense));
  optimizer.apply_gradients({dense.to(at::kDouble)}, {w});
  EXPECT_TRUE(at::equal(w, -2 * dense));
  optimizer.apply_gradients({dense.to_sparse()}, {w});
  EXPECT_TRUE(at::equal(w, -3 * dense));
}

// Of SGD and Adagrad the rows of a sparse gradient alone are looked at, unless an option looks at all.
TEST(Optimizer, GivesTheBitsOfADenseGradientForASparseOne) {
  const Tensor start = at::rand({9, 5}), ids = at::tensor({7, 2, 7, 0}, at::kLong), values = at::rand({4, 5});
  const Tensor gradient = at::sparse_coo_tensor(ids.unsqueeze(0), values, {9, 5});
  const auto expect_alike = [&](const Optimizer& sparse, const Optimizer& dense, at::ScalarType dtype) {
    const Tensor a = start.to(dtype), b = start.to(dtype);
    for (int step = 0; step < 3; ++step) {
      sparse.apply_gradients({gradient.to(dtype)}, {a});
      dense.apply_gradients({gradient.to(dtype).to_dense()}, {b});
    }
    EXPECT_TRUE(at::equal(a, b)) << sparse.name() << ' ' << dtype;
  };
  const auto twice = [&](const auto& make) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kHalf}) expect_alike(make(), make(), dtype);
  };
  twice([] { return SGD({.learning_rate = 0.1}); });
  twice([] { return SGD({.learning_rate = 0.1, .momentum = 0.5}); });
  twice([] { return SGD({.learning_rate = 0.1, .weight_decay = 0.5}); });
  twice([] { return SGD({.learning_rate = 0.1, .clipvalue = 0.3, .use_ema = true}); });
  twice([] { return SGD({.learning_rate = 0.1, .gradient_accumulation_steps = 2}); });
  twice([] { return Adagrad({.learning_rate = 0.1}); });
  twice([] { return Adagrad({.learning_rate = 0.1, .clipnorm = 0.5}); });
  twice([] { return Adam({.learning_rate = 0.1}); });
}

TEST(Optimizer, RefusesOptionsOutOfRange) {
  EXPECT_THAT(error_of([] { SGD({.learning_rate = -1}); }), HasSubstr("the learning rate is -1; it must be a finite"));
  EXPECT_THAT(error_of([] { SGD().set_learning_rate(NAN); }), HasSubstr("the learning rate is nan"));
  EXPECT_THAT(error_of([] { trained(SGD({.learning_rate = [](int64_t) { return NAN; }}), 1); }),
              HasSubstr("the learning rate is nan"));
  EXPECT_THAT(error_of([] { SGD({.weight_decay = -1}); }), HasSubstr("weight_decay is -1; it must be at least 0"));
  EXPECT_THAT(error_of([] { SGD({.clipnorm = 0}); }), HasSubstr("clipnorm is 0; it must be positive"));
  EXPECT_THAT(error_of([] { SGD({.global_clipnorm = -1}); }), HasSubstr("global_clipnorm is -1"));
  EXPECT_THAT(error_of([] { SGD({.clipvalue = -1}); }), HasSubstr("clipvalue is -1"));
  EXPECT_THAT(error_of([] { SGD({.ema_momentum = 1.5}); }), HasSubstr("ema_momentum is 1.5; it must be in [0, 1]"));
  EXPECT_THAT(error_of([] { SGD({.ema_overwrite_frequency = 0}); }), HasSubstr("ema_overwrite_frequency is 0"));
  EXPECT_THAT(error_of([] { SGD({.loss_scale_factor = 0}); }), HasSubstr("loss_scale_factor is 0"));
  EXPECT_THAT(error_of([] { SGD({.gradient_accumulation_steps = 1}); }), HasSubstr("it must be at least 2"));
}

TEST(Optimizer, LeavesTheDecayOfExcludedVariables) {
  const Tensor a = at::ones({2, 2}), b = at::ones({2}), c = at::ones({1});
  const auto decay_all = [&](const SGD& optimizer) {
    for (const Tensor& w : {a, b, c}) w.fill_(1);
    optimizer.apply_gradients({at::zeros({2, 2}), at::zeros({2}), at::zeros({1})}, {a, b, c});
    return std::vector{a.max().item<double>(), b.max().item<double>(), c.max().item<double>()};
  };
  const SGDOptions options{.learning_rate = 0.5, .weight_decay = 0.5};
  EXPECT_THAT(decay_all(SGD(options)), ElementsAre(0.75, 0.75, 0.75));
  const SGD listed(options), predicated(options);
  listed.exclude_from_weight_decay({b});
  EXPECT_THAT(decay_all(listed), ElementsAre(0.75, 1, 0.75));
  predicated.exclude_from_weight_decay([](const Tensor& w) { return w.dim() < 2; });
  EXPECT_THAT(decay_all(predicated), ElementsAre(0.75, 1, 1));
  EXPECT_THAT(error_of([&] { listed.exclude_from_weight_decay({a}); }), HasSubstr("failed_precondition: SGD.exclude"));
}

TEST(Optimizer, ClipsLargeGradientsTheSameOnAnyNumberOfThreads) {
  const Tensor g = at::rand({3, 300'000});
  const auto clipped = [&](int threads) {
    at::set_num_threads(threads);
    const Tensor w = at::zeros_like(g);
    Adam({.learning_rate = 0.1, .epsilon = 1e-3, .global_clipnorm = 1}).apply_gradients({g}, {w});
    return w;
  };
  const int threads = at::get_num_threads();
  const Tensor one = clipped(1), four = clipped(4);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one, four));
}

TEST(Optimizer, ClipsWhatOverflowsWhenSquared) {
  const Tensor w = at::zeros({2});
  SGD({.learning_rate = 1, .clipnorm = 1}).apply_gradients({at::full({2}, -1e30f)}, {w});
  EXPECT_TRUE(at::allclose(w, at::full({2}, std::sqrt(0.5))));
}

TEST(Optimizer, LeavesEmptyVariablesAndGradientsOfZeroAlone) {
  const Tensor empty = at::empty({0, 3}), w = at::ones({2});
  for (const SGDOptions& options : {SGDOptions{.clipnorm = 1}, SGDOptions{.global_clipnorm = 1}})
    SGD(options).apply_gradients({at::empty({0, 3}), at::zeros({2})}, {empty, w});
  EXPECT_TRUE(at::equal(w, at::ones({2})));
}

TEST(Optimizer, AppliesTheMeanOfAccumulatedGradients) {
  const auto halving = [](int64_t calls) { return calls < 2 ? 1.0 : 0.5; };
  const SGD optimizer({.learning_rate = halving, .clipnorm = 5, .gradient_accumulation_steps = 2});
  const Tensor w = variable(), start = variable().detach(), g = gradient();
  const auto apply = [&](double factor) { optimizer.apply_gradients({factor * g}, {w}); };
  apply(1);
  EXPECT_TRUE(at::equal(w, start));
  EXPECT_EQ(optimizer.iterations(), 0);
  apply(0.6);
  EXPECT_TRUE(at::allclose(w, start - 0.8 * g));
  EXPECT_EQ(optimizer.iterations(), 1);
  apply(1);
  apply(3);  // their mean has norm 10
  EXPECT_TRUE(at::allclose(w, start - 1.3 * g));
  EXPECT_EQ(optimizer.iterations(), 2);
}

TEST(Optimizer, ScalesTheLossAndUndoesIt) {
  const SGD optimizer({.learning_rate = 1, .loss_scale_factor = 4});
  EXPECT_EQ(optimizer.scale_loss(at::ones({})).item<double>(), 4);
  EXPECT_TRUE(at::allclose(trained(optimizer, 1), variable() - gradient() / 4));
  EXPECT_EQ(SGD().scale_loss(at::ones({})).item<double>(), 1);
  EXPECT_TRUE(optimizer.scales_loss());
  EXPECT_FALSE(SGD().scales_loss());
}

TEST(Averages, MoveWithTheVariables) {
  const SGD optimizer({.learning_rate = 1, .use_ema = true, .ema_momentum = 0.75});
  const Tensor w = variable(), start = variable().detach(), g = gradient();
  for (int step = 0; step < 2; ++step) optimizer.apply_gradients({g}, {w});
  const Tensor average = 0.75 * (start - g) + 0.25 * (start - 2 * g);
  optimizer.swap_averages();
  EXPECT_TRUE(at::allclose(w, average));
  optimizer.swap_averages();
  EXPECT_TRUE(at::allclose(w, start - 2 * g));
  optimizer.finalize_variable_values({w});
  EXPECT_TRUE(at::allclose(w, average));
}

TEST(Averages, BecomeTheVariables) {
  const SGD optimizer({.learning_rate = 1, .use_ema = true});
  const Tensor w = trained(optimizer, 3);
  optimizer.reset_averages();
  const Tensor before = w.clone();
  optimizer.swap_averages();
  EXPECT_TRUE(at::equal(w, before));
}

TEST(Averages, OverwriteTheVariablesAsOftenAsAsked) {
  const SGD optimizer({.learning_rate = 1, .use_ema = true, .ema_momentum = 0.5, .ema_overwrite_frequency = 2});
  const Tensor start = variable().detach(), g = gradient();
  const Tensor average = 0.5 * (start - g) + 0.5 * (start - 2 * g);
  EXPECT_TRUE(at::allclose(trained(optimizer, 2), average));
}

TEST(Averages, AreRefusedWhereNoneAreKept) {
  const SGD optimizer;
  const Tensor w = trained(optimizer, 1);
  optimizer.finalize_variable_values({w});
  EXPECT_THAT(error_of([&] { optimizer.swap_averages(); }),
              HasSubstr("failed_precondition: SGD.swap_averages: the optimizer keeps no averages"));
  EXPECT_THAT(error_of([&] { optimizer.reset_averages(); }), HasSubstr("use_ema = true"));
}

TEST(Optimizer, TellsAGraphThatItsVariableHasChanged) {
  const Tensor w = variable();
  const Tensor loss = (w * w).sum();
  SGD().apply_gradients({gradient()}, {w});
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(Optimizer, KeepsEachSlotInOneBuffer) {
  const Adam optimizer;
  optimizer.build({at::ones({2, 3}), at::ones({5}), at::ones({4}, at::kDouble)});
  const auto state = optimizer.impl()->state();
  ASSERT_EQ(state.size(), 6U);
  EXPECT_TRUE(state[0].is_alias_of(state[2]));
  EXPECT_FALSE(state[0].is_alias_of(state[1]));
  EXPECT_FALSE(state[0].is_alias_of(state[4]));
  EXPECT_EQ(state[0].sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(state[4].scalar_type(), at::kDouble);
}

TEST(Optimizer, RefusesListsOfUnequalLength) {
  EXPECT_THAT(error_of([] { SGD().apply_gradients({gradient()}, {}); }), HasSubstr("1 gradients for 0 variables"));
}

TEST(Optimizer, CountsUpdatesAndFollowsItsSchedule) {
  const SGD optimizer({.learning_rate = [](int64_t step) { return step < 1 ? 1.0 : 0.5; }});
  EXPECT_TRUE(at::allclose(trained(optimizer, 2), variable() - 1.5 * gradient()));
  EXPECT_EQ(optimizer.iterations(), 2);
  EXPECT_EQ(optimizer.learning_rate(), 0.5);
  optimizer.set_learning_rate(0.25);
  EXPECT_EQ(optimizer.learning_rate(), 0.25);
}

}  // namespace
}  // namespace tutti::keras::optimizers
