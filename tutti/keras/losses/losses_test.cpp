// Losses against closed forms and sums over everything, and the gradients of all against finite differences.
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/losses/categorical_crossentropy.h"
#include "tutti/keras/losses/categorical_generalized_cross_entropy.h"
#include "tutti/keras/losses/circle.h"
#include "tutti/keras/losses/cosine_similarity.h"
#include "tutti/keras/losses/ctc.h"
#include "tutti/keras/losses/dice.h"
#include "tutti/keras/losses/hinge.h"
#include "tutti/keras/losses/huber.h"
#include "tutti/keras/losses/kl_divergence.h"
#include "tutti/keras/losses/log_cosh.h"
#include "tutti/keras/losses/mean_absolute_percentage_error.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/losses/mean_squared_logarithmic_error.h"
#include "tutti/keras/losses/poisson.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"

namespace tutti::keras::losses {
namespace {

using ::testing::HasSubstr;

// A batch of one sample.
Tensor row(std::vector<double> numbers) { return at::tensor(numbers, at::kDouble).unsqueeze(0); }

double value(const Loss& loss, const Tensor& y_true, const Tensor& y_pred) {
  return loss(y_true, y_pred).item<double>();
}

TEST(RegressionLosses, AreTheirFormulas) {
  const Tensor y = row({1, 2, 0});
  const Tensor p = row({1.5, -1, 0.5});
  EXPECT_NEAR(value(MeanAbsolutePercentageError(), y, p), 100 * (0.5 + 1.5 + 0.5e7) / 3, 1);
  EXPECT_NEAR(value(MeanSquaredLogarithmicError(), y, p),
              (std::pow(std::log(2.5 / 2), 2) + std::pow(std::log(3), 2) + std::pow(std::log(1.5), 2)) / 3, 1e-6);
  EXPECT_NEAR(value(Huber(), y, p), (0.125 + (3 - 0.5) + 0.125) / 3, 1e-9);
  EXPECT_NEAR(value(Huber({.delta = 0.25}), y, p), (0.25 * 0.5 + 0.25 * 3 + 0.25 * 0.5 - 3 * 0.03125) / 3, 1e-9);
  EXPECT_NEAR(value(LogCosh(), y, p), (2 * std::log(std::cosh(0.5)) + std::log(std::cosh(3))) / 3, 1e-7);
  EXPECT_NEAR(value(LogCosh(), row({0}), row({1e4})), 1e4 - std::log(2), 1e-3);
  EXPECT_THAT(error_of([] { Huber({.delta = 0}); }), HasSubstr("delta is 0; it must be above 0"));
}

TEST(CosineSimilarity, IsMinusOneForTheSameDirection) {
  EXPECT_NEAR(value(CosineSimilarity(), row({1, 2}), row({3, 6})), -1, 1e-9);
  EXPECT_NEAR(value(CosineSimilarity(), row({1, 0}), row({0, 2})), 0, 1e-9);
  EXPECT_EQ(value(CosineSimilarity(), row({1, 1}), row({0, 0})), 0);
  EXPECT_THAT(error_of([] {
                CosineSimilarity({.axis = 0})(at::ones({2, 2}), at::ones({2, 2}));
              }),
              HasSubstr("that of the batch"));
}

TEST(Distributions, AreComparedByTheirFormulas) {
  const Tensor y = row({0.5, 0.5, 0});
  const Tensor p = row({0.25, 0.5, 0.25});
  EXPECT_NEAR(value(KLDivergence(), y, p), 0.5 * std::log(2), 1e-5);
  EXPECT_NEAR(value(Poisson(), y, p), (0.25 - 0.5 * std::log(0.25) + 0.5 - 0.5 * std::log(0.5) + 0.25) / 3, 1e-6);
}

TEST(CategoricalGeneralizedCrossEntropy, LiesBetweenCrossentropyAndAbsoluteError) {
  const Tensor label = at::tensor(std::vector<int64_t>{1});
  const Tensor p = row({0.4, 0.25, 0.35});
  EXPECT_NEAR(value(CategoricalGeneralizedCrossEntropy(), label, p), 2 * (1 - 0.5), 1e-9);
  EXPECT_NEAR(value(CategoricalGeneralizedCrossEntropy({.q = 1e-9}), label, p), -std::log(0.25), 1e-6);
  EXPECT_THAT(error_of([] { CategoricalGeneralizedCrossEntropy({.q = 1}); }), HasSubstr("it must lie in (0, 1)"));
  EXPECT_THAT(error_of([&] { CategoricalGeneralizedCrossEntropy()(3 * label, p); }), HasSubstr("outside of [0, 3)"));
}

TEST(Hinge, TakesZerosForMinusOnesWhereAllLabelsAreBinary) {
  EXPECT_NEAR(value(Hinge(), row({0, 1}), row({-0.5, 2})), 0.25, 1e-9);
  EXPECT_NEAR(value(Hinge(), row({-1, 1}), row({-0.5, 2})), 0.25, 1e-9);
  EXPECT_NEAR(value(Hinge(), row({0, -1}), row({-0.5, 2})), (1 + 3) / 2.0, 1e-9);
  EXPECT_NEAR(value(SquaredHinge(), row({0, 1}), row({-0.5, 2})), 0.125, 1e-9);
  EXPECT_NEAR(value(CategoricalHinge(), row({0, 1, 0}), row({0.3, 0.8, 0.1})), 0.5, 1e-9);
}

// The labels of the first replica alone would be binary.
TEST(Hinge, AsksAllReplicasWhetherLabelsAreBinary) {
  const Tensor y = at::tensor({0.0, 1.0, 0.0, -1.0}).view({4, 1});
  const Tensor p = at::randn({4, 1});
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const auto shares = strategy.run([&] {
    const int64_t first = 2 * get_replica_context().replica_id_in_sync_group();
    return Hinge().share(y.slice(0, first, first + 2), p.slice(0, first, first + 2), {}, 4);
  });
  EXPECT_TRUE(at::allclose(shares[0] + shares[1], Hinge()(y, p)));
}

TEST(Dice, ComparesRegionsOfTheBatchOrOfEachSample) {
  const Tensor y = at::tensor({1.0, 1.0, 0.0, 0.0, 1.0, 0.0}).view({2, 3});
  const Tensor p = at::tensor({0.5, 1.0, 0.5, 0.0, 0.0, 1.0}).view({2, 3});
  EXPECT_NEAR(value(Dice(), y, p), 1 - 2 * 1.5 / 6, 1e-6);
  EXPECT_TRUE(at::allclose(Dice({.axis = {1}, .reduction = Reduction::none})(y, p), at::tensor({1 - 2 * 1.5 / 4, 1.0}),
                           1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(Dice({.axis = {0}, .reduction = Reduction::none})(y, p),
                           at::tensor({1 - 2 * 0.5 / 1.5, 1 - 2 * 1 / 3.0, 1.0}), 1e-5, 1e-6));
}

TEST(Tversky, WeighsFalsePositivesByAlphaAndFalseNegativesByBeta) {
  const Tensor y = at::tensor({1.0, 1.0, 0.0, 0.0}).view({1, 4});
  const Tensor p = at::tensor({1.0, 0.0, 1.0, 1.0}).view({1, 4});
  EXPECT_NEAR(value(Tversky({.alpha = 0.2, .beta = 0.8}), y, p), 1 - 1 / (1 + 0.2 * 2 + 0.8 * 1), 1e-6);
  EXPECT_NEAR(value(Tversky(), y, p), value(Dice(), y, p), 1e-6);
}

TEST(Dice, OfTheBatchTakesNoWeights) {
  const Tensor y = at::ones({2, 3});
  EXPECT_THAT(error_of([&] { Dice()(y, y, at::ones({2})); }), HasSubstr("it takes no sample weights and no mask"));
  EXPECT_THAT(error_of([&] { Dice()(y, y, {}, at::ones({2}, at::kBool)); }),
              HasSubstr("no sample weights and no mask"));
  EXPECT_NEAR(Dice({.axis = {1}})(y, y, at::ones({2})).item<double>(), 0, 1e-6);
  EXPECT_THAT(error_of([&] { Dice({.axis = {2}})(y, y); }), HasSubstr("axis is 2"));
}

// The sums as the paper writes them, with plain loops.
double circle_of(const Tensor& labels, const Tensor& embeddings, double gamma, double margin) {
  double sum = 0;
  const int64_t n = labels.size(0);
  for (int64_t i = 0; i < n; ++i) {
    double positives = 0, negatives = 0;
    for (int64_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const double s = (embeddings[i] * embeddings[j]).sum().item<double>();
      if (labels[i].item<int64_t>() == labels[j].item<int64_t>())
        positives += std::exp(-gamma * std::max(1 + margin - s, 0.0) * (s - (1 - margin)));
      else
        negatives += std::exp(gamma * std::max(s + margin, 0.0) * (s - margin));
    }
    sum += std::log(1 + positives * negatives);
  }
  return sum / static_cast<double>(n);
}

TEST(Circle, IsTheSumOverAllPairs) {
  const Tensor y = at::tensor(std::vector<int64_t>{0, 1, 0, 1, 1});
  Tensor e = at::rand({5, 3}, at::kDouble);
  e = e / e.square().sum(1, true).sqrt();
  EXPECT_NEAR(value(Circle({.gamma = 8, .margin = 0.25}), y, e), circle_of(y, e, 8, 0.25), 1e-6);
  EXPECT_NEAR(value(Circle({.gamma = 8, .margin = 0.25}), y.unsqueeze(1), e), circle_of(y, e, 8, 0.25), 1e-6);
  EXPECT_THAT(error_of([&] { Circle()(y, e[0]); }), HasSubstr("they must be (N,) and (N, features)"));
}

TEST(Circle, LeavesOutSamplesWithoutAPartner) {
  const Tensor y = at::tensor(std::vector<int64_t>{0, 0, 1});
  const Tensor e = at::eye(3, at::kDouble).slice(1, 0, 2).contiguous().requires_grad_(true);
  const Tensor values = Circle({.gamma = 2, .reduction = Reduction::none})(y, e);
  EXPECT_EQ(values[2].item<double>(), 0);
  const Tensor loss = Circle({.gamma = 2})(y, e);
  EXPECT_TRUE(at::allclose(loss, values.slice(0, 0, 2).mean()));
  loss.backward();
  EXPECT_TRUE(e.grad().isfinite().all().item<bool>());
}

// The probability that the steps, blanks and repetitions left out, spell the labels: all sequences are tried.
double ctc_probability(const std::vector<int64_t>& labels, const Tensor& probabilities) {
  const int64_t steps = probabilities.size(0), classes = probabilities.size(1);
  double sum = 0;
  for (int64_t code = 0; code < std::pow(classes, steps); ++code) {
    std::vector<int64_t> spelled;
    double probability = 1;
    int64_t last = 0, rest = code;
    for (int64_t step = 0; step < steps; ++step, rest /= classes) {
      const int64_t symbol = rest % classes;
      probability *= probabilities[step][symbol].item<double>();
      if (symbol != 0 && symbol != last) spelled.push_back(symbol);
      last = symbol;
    }
    if (spelled == labels) sum += probability;
  }
  return sum;
}

TEST(CTC, IsTheProbabilityOfAllAlignments) {
  const Tensor logits = at::randn({3, 4, 3}, at::kDouble);
  const Tensor y = at::tensor(std::vector<int64_t>{1, 2, 1, 1, 2, 0}).view({3, 2});
  const Tensor losses = CTC({.reduction = Reduction::none})(y, logits);
  const Tensor p = logits.softmax(-1);
  EXPECT_NEAR(losses[0].item<double>(), -std::log(ctc_probability({1, 2}, p[0])), 1e-9);
  EXPECT_NEAR(losses[1].item<double>(), -std::log(ctc_probability({1, 1}, p[1])), 1e-9);
  EXPECT_NEAR(losses[2].item<double>(), -std::log(ctc_probability({2}, p[2])), 1e-9);
}

TEST(CTC, RefusesWhatItCannotAlign) {
  const Tensor y = at::ones({2, 3}, at::kLong);
  EXPECT_THAT(error_of([&] {
                CTC()(y, at::ones({3, 4, 5}));
              }),
              HasSubstr("labels of shape (2, 3) do not fit predictions of shape (3, 4, 5)"));
  EXPECT_THAT(error_of([&] { CTC()(5 * y, at::ones({2, 4, 5})); }), HasSubstr("a label lies outside of [0, 5)"));
  EXPECT_EQ(CTC()(y.slice(0, 0, 0), at::ones({0, 4, 5})).item<double>(), 0);
}

struct Differentiated {
  const char* name;
  Loss loss;
  Tensor y_true, y_pred;
};

// Labels and predictions where no loss has a kink or is steep.
std::vector<Differentiated> differentiated() {
  const Tensor y = at::randn({3, 4}, at::kDouble);
  const Tensor p = at::randn({3, 4}, at::kDouble);
  const Tensor binary = at::randint(2, {3, 4}, at::kDouble);
  const Tensor probabilities = at::rand({3, 4}, at::kDouble) * 0.8 + 0.1;
  const Tensor classes = at::tensor(std::vector<int64_t>{3, 0, 2});
  const Tensor one_hot = at::eye(4, at::kDouble).index_select(0, classes);
  return {{"mape", MeanAbsolutePercentageError(), y, p},
          {"msle", MeanSquaredLogarithmicError(), y.abs(), p.abs()},
          {"cosine", CosineSimilarity(), y, p},
          {"log_cosh", LogCosh(), y, p},
          {"huber", Huber({.delta = 0.7}), y, p},
          {"kl", KLDivergence(), probabilities.flip(0), probabilities},
          {"poisson", Poisson(), y.abs(), p.abs() + 0.2},
          {"squared_hinge", SquaredHinge(), binary, p},
          {"categorical_hinge", CategoricalHinge(), one_hot, p},
          {"bce", BinaryCrossentropy(), binary, probabilities},
          {"bce logits", BinaryCrossentropy({.from_logits = true, .label_smoothing = 0.1}), binary, p},
          {"binary focal", BinaryFocalCrossentropy({.apply_class_balancing = true}), binary, probabilities},
          {"cce", CategoricalCrossentropy(), one_hot, probabilities},
          {"focal", CategoricalFocalCrossentropy({.from_logits = true}), one_hot, p},
          {"sparse", SparseCategoricalCrossentropy(), classes, probabilities},
          {"sparse logits", SparseCategoricalCrossentropy({.from_logits = true, .ignore_class = 0}), classes, p},
          {"generalized", CategoricalGeneralizedCrossEntropy({.q = 0.3}), classes, probabilities},
          {"dice", Dice(), binary, probabilities},
          {"tversky", Tversky({.alpha = 0.3, .beta = 0.7, .axis = {1}}), binary, probabilities},
          {"circle", Circle({.gamma = 4}), at::tensor(std::vector<int64_t>{0, 0, 1}), probabilities * 0.7},
          {"ctc", CTC(), at::tensor(std::vector<int64_t>{1, 2}).view({1, 2}), p.view({1, 3, 4})}};
}

TEST(Losses, HaveTheGradientsOfFiniteDifferences) {
  constexpr double kStep = 1e-5;
  for (const auto& [name, loss, y_true, y_pred] : differentiated()) {
    const Tensor leaf = y_pred.detach().clone().requires_grad_(true);
    const Tensor gradient = gradients(loss(y_true, leaf), {leaf})[0].reshape({-1});
    for (int64_t i = 0; i < gradient.size(0); ++i) {
      const auto moved = [&](double by) {
        const Tensor x = y_pred.detach().clone();
        x.view({-1})[i].add_(by);
        return value(loss, y_true, x);
      };
      const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      EXPECT_NEAR(gradient[i].item<double>(), slope, 1e-6 * std::max(1.0, std::abs(slope))) << name << ' ' << i;
    }
  }
}

}  // namespace
}  // namespace tutti::keras::losses
