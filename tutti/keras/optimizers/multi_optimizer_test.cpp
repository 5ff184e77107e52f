#include "tutti/keras/optimizers/multi_optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/three_replicas.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/optimizers/loss_scale_optimizer.h"
#include "tutti/keras/optimizers/sgd.h"
#include "tutti/keras/sequential.h"
#include "tutti/keras/variable_notes.h"

namespace tutti::keras::optimizers {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor named(const char* path) {
  const Tensor w = at::ones({2});
  set_path(w, path);
  return w;
}

TEST(MultiOptimizer, GivesEachVariableToItsOwn) {
  const Tensor a = named("first/kernel"), b = named("first/bias"), c = named("second/kernel"), d = at::ones({2});
  const SGD slow({.learning_rate = 0.1});
  const MultiOptimizer optimizer({{"first/k", slow},
                                  {std::vector<Tensor>{c}, SGD({.learning_rate = 0.2})},
                                  {[&](const Tensor& w) { return w.is_same(d); }, slow}},
                                 SGD({.learning_rate = 0.3}));
  optimizer.apply_gradients({at::ones({2}), at::ones({2}), at::ones({2}), at::ones({2})}, {a, b, c, d});
  EXPECT_TRUE(at::allclose(a, at::full({2}, 0.9)));
  EXPECT_TRUE(at::allclose(b, at::full({2}, 0.7)));
  EXPECT_TRUE(at::allclose(c, at::full({2}, 0.8)));
  EXPECT_TRUE(at::allclose(d, at::full({2}, 0.9)));
  EXPECT_EQ(optimizer.optimizers().size(), 3U);
  EXPECT_EQ(slow.iterations(), 1);
  EXPECT_EQ(optimizer.iterations(), 1);
  EXPECT_EQ(optimizer.learning_rate(), 0.1);
  optimizer.set_learning_rate(0.5);
  EXPECT_EQ(slow.learning_rate(), 0.5);
}

TEST(MultiOptimizer, MatchesTheBeginningOfPathsAndOfNames) {
  const Tensor a = named("block/dense/kernel"), b = named("dense/kernel");
  const auto matches = [](const char* expression, const Tensor& w) { return VariableFilter(expression)(w); };
  EXPECT_TRUE(matches("kernel", a));
  EXPECT_TRUE(matches("dense/", b));
  EXPECT_FALSE(matches("dense/", a));
  EXPECT_TRUE(matches(".*dense/", a));
  EXPECT_FALSE(matches("kernel", named("block/the_kernel")));
  EXPECT_THAT(error_of([] { VariableFilter("("); }), HasSubstr("MultiOptimizer: '(' is no regular expression"));
}

TEST(MultiOptimizer, RefusesAVariableOfTwo) {
  const Tensor a = named("dense/kernel");
  const MultiOptimizer optimizer({{"dense", SGD()}, {"kernel", Adam()}}, SGD());
  EXPECT_THAT(error_of([&] { optimizer.apply_gradients({at::ones({2})}, {a}); }),
              HasSubstr("two optimizers, SGD and adam, are for the variable 'dense/kernel'"));
}

TEST(MultiOptimizer, LeavesWhatHasNoGradient) {
  const CollectedWarnings warnings;
  const Tensor a = named("a"), b = named("b");
  const MultiOptimizer optimizer({{"a", SGD({.learning_rate = 1})}}, Adam());
  optimizer.apply_gradients({at::ones({2}), Tensor()}, {a, b});
  EXPECT_TRUE(at::equal(b, at::ones({2})));
  EXPECT_TRUE(at::equal(a, at::full({2}, 0.F)));
  EXPECT_THAT(warnings.lines(), ElementsAre(HasSubstr("the variables of adam have no gradient and stay as they are")));
  EXPECT_THAT(error_of([&] {
                optimizer.apply_gradients({Tensor(), Tensor()}, {a, b});
              }),
              HasSubstr("no variable has a gradient"));
}

TEST(MultiOptimizer, TrainsUnderReplicasAsOnOneDevice) {
  const Tensor x = at::randn({12, 4}), y = x.sum(1, true);
  const auto trained = [&](Strategy& strategy, bool scaled) {
    const Sequential model = strategy.build([] {
      return Sequential({layers::Dense({.units = 3, .name = "body"}), layers::Dense({.units = 1, .name = "head"})});
    });
    model.build({kUnknown, 4});
    model.set_weights({at::full({4, 3}, 0.1), at::full({3}, 0.0), at::full({3, 1}, 0.2), at::full({1}, 0.0)});
    const MultiOptimizer multi({{"head", SGD({.learning_rate = 0.1, .clipnorm = 1})}}, Adam({.learning_rate = 0.01}));
    model.compile({.optimizer = scaled ? Optimizer(LossScaleOptimizer(multi)) : Optimizer(multi), .loss = "mse"});
    model.fit(x, y, {.batch_size = 4, .epochs = 3, .verbose = Verbose::silent, .shuffle = false});
    EXPECT_EQ(multi.iterations(), 9);
    return model.get_weights();
  };
  MirroredStrategy three({.devices = configure_logical_cpus(3)});
  const auto one = trained(get_strategy(), false);
  for (const auto& weights : {trained(three, false), trained(three, true)})
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::allclose(weights[i], one[i], 1e-4, 1e-5)) << i;
}

}  // namespace
}  // namespace tutti::keras::optimizers
