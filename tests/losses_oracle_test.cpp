// What Keras returned for losses and their gradients (tests/oracle/losses.json), case by case; and the same from shards
// of the batch on several replicas.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <map>

#include "tests/support/oracle.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/keras/losses/binary_crossentropy.h"
#include "tutti/keras/losses/categorical_crossentropy.h"
#include "tutti/keras/losses/circle.h"
#include "tutti/keras/losses/cosine_similarity.h"
#include "tutti/keras/losses/ctc.h"
#include "tutti/keras/losses/dice.h"
#include "tutti/keras/losses/hinge.h"
#include "tutti/keras/losses/huber.h"
#include "tutti/keras/losses/kl_divergence.h"
#include "tutti/keras/losses/log_cosh.h"
#include "tutti/keras/losses/mean_absolute_error.h"
#include "tutti/keras/losses/mean_absolute_percentage_error.h"
#include "tutti/keras/losses/mean_squared_error.h"
#include "tutti/keras/losses/mean_squared_logarithmic_error.h"
#include "tutti/keras/losses/poisson.h"
#include "tutti/keras/losses/sparse_categorical_crossentropy.h"

namespace tutti::keras {
namespace {

using losses::Loss;
using oracle::Json;

Reduction reduction(const Json& a) {
  static const std::map<std::string, Reduction> reductions{
      {"sum_over_batch_size", Reduction::sum_over_batch_size},
      {"mean_with_sample_weight", Reduction::mean_with_sample_weight},
      {"sum", Reduction::sum},
      {"none", Reduction::none}};
  return reductions.at(a.value("reduction", "sum_over_batch_size"));
}

using Builder = std::function<Loss(const Json& arguments)>;

template <class L, class Options>
Builder plain() {
  return [](const Json& a) { return L(Options{.reduction = reduction(a)}); };
}

#define TUTTI_PLAIN(name) \
  { #name, plain < losses::name, losses::name##Options>() }

template <class L, class Options>
Builder crossentropy() {
  return [](const Json& a) {
    return L(Options{.from_logits = a.value("from_logits", false),
                     .label_smoothing = a.value("label_smoothing", 0.0),
                     .axis = a.value("axis", int64_t{-1}),
                     .reduction = reduction(a)});
  };
}

Loss binary_focal(const Json& a) {
  return losses::BinaryFocalCrossentropy({.apply_class_balancing = a.value("apply_class_balancing", false),
                                          .alpha = a.value("alpha", 0.25),
                                          .gamma = a.value("gamma", 2.0),
                                          .from_logits = a.value("from_logits", false),
                                          .label_smoothing = a.value("label_smoothing", 0.0),
                                          .reduction = reduction(a)});
}

Loss categorical_focal(const Json& a) {
  return losses::CategoricalFocalCrossentropy({.alpha = a.value("alpha", 0.25),
                                               .gamma = a.value("gamma", 2.0),
                                               .from_logits = a.value("from_logits", false),
                                               .label_smoothing = a.value("label_smoothing", 0.0),
                                               .reduction = reduction(a)});
}

Loss sparse(const Json& a) {
  losses::SparseCategoricalCrossentropyOptions options{.from_logits = a.value("from_logits", false),
                                                       .reduction = reduction(a)};
  if (a.contains("ignore_class")) options.ignore_class = a.at("ignore_class").get<int64_t>();
  return losses::SparseCategoricalCrossentropy(options);
}

Loss tversky(const Json& a) {
  return losses::Tversky({.alpha = a.value("alpha", 0.5),
                          .beta = a.value("beta", 0.5),
                          .axis = a.value("axis", std::vector<int64_t>{}),
                          .reduction = reduction(a)});
}

Loss circle(const Json& a) {
  return losses::Circle({.gamma = a.value("gamma", 80.0),
                         .margin = a.value("margin", 0.4),
                         .remove_diagonal = a.value("remove_diagonal", true),
                         .reduction = reduction(a)});
}

Loss loss(const Json& test) {
  using namespace losses;
  static const std::map<std::string, Builder> builders{
      TUTTI_PLAIN(MeanSquaredError),
      TUTTI_PLAIN(MeanAbsoluteError),
      TUTTI_PLAIN(MeanAbsolutePercentageError),
      TUTTI_PLAIN(MeanSquaredLogarithmicError),
      TUTTI_PLAIN(LogCosh),
      TUTTI_PLAIN(Hinge),
      TUTTI_PLAIN(SquaredHinge),
      TUTTI_PLAIN(CategoricalHinge),
      TUTTI_PLAIN(KLDivergence),
      TUTTI_PLAIN(Poisson),
      TUTTI_PLAIN(CTC),
      {"BinaryCrossentropy", crossentropy<BinaryCrossentropy, BinaryCrossentropyOptions>()},
      {"CategoricalCrossentropy", crossentropy<CategoricalCrossentropy, CategoricalCrossentropyOptions>()},
      {"BinaryFocalCrossentropy", binary_focal},
      {"CategoricalFocalCrossentropy", categorical_focal},
      {"SparseCategoricalCrossentropy", sparse},
      {"Tversky", tversky},
      {"Circle", circle},
      {"Huber", [](const Json& a) { return Huber({.delta = a.value("delta", 1.0), .reduction = reduction(a)}); }},
      {"Dice",
       [](const Json& a) {
         return Dice({.axis = a.value("axis", std::vector<int64_t>{}), .reduction = reduction(a)});
       }},
      {"CosineSimilarity", [](const Json& a) {
         return CosineSimilarity({.axis = a.value("axis", int64_t{-1}), .reduction = reduction(a)});
       }}};
  return builders.at(test.at("loss"))(test.at("arguments"));
}

struct Call {
  Tensor y_true, y_pred, sample_weight, mask;

  explicit Call(const Json& test)
      : y_true(oracle::tensor(test.at("y_true"))), y_pred(oracle::tensor(test.at("y_pred"))) {
    if (test.contains("sample_weight")) sample_weight = oracle::tensor(test.at("sample_weight"));
    if (test.contains("mask")) mask = oracle::tensor(test.at("mask"));
  }

  // The rows from first up to last; tensors that are undefined stay so.
  Call shard(int64_t first, int64_t last) const {
    Call part = *this;
    for (Tensor* tensor : {&part.y_true, &part.y_pred, &part.sample_weight, &part.mask})
      if (tensor->defined()) *tensor = tensor->slice(0, first, last);
    return part;
  }
};

Json recorded_losses() { return oracle::own_document("losses.json").at("cases"); }

TEST(LossesOracle, LossesAndGradientsAreKeras) {
  int num_run = 0;
  for (const Json& test : recorded_losses()) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const Call call(test);
    const Tensor y_pred = call.y_pred.requires_grad_(true);
    const Tensor value = loss(test)(call.y_true, y_pred, call.sample_weight, call.mask);
    EXPECT_TRUE(oracle::equals(value.detach(), test.at("expected"))) << value << test.at("expected");
    const Tensor gradient = gradients(value.sum(), {y_pred})[0];
    EXPECT_TRUE(oracle::equals(gradient, test.at("gradient"))) << gradient << test.at("gradient");
    ++num_run;
  }
  std::cout << "losses.json: " << num_run << " cases run\n";
  EXPECT_GT(num_run, 0);
}

// Where replica r's rows begin: uneven, and empty for some.
int64_t first_row(int64_t num_rows, int replicas, int replica) {
  if (replica >= replicas) return num_rows;
  return replica == 0 ? 0 : std::min<int64_t>(num_rows, 1 + 2 * (replica - 1));
}

void expect_shares_add_up(const Json& test, int replicas) {
  const Call whole(test);
  const int64_t num_rows = whole.y_pred.size(0);
  const Loss tested = loss(test);
  MirroredStrategy strategy({.devices = configure_logical_cpus(replicas)});
  const auto results = strategy.run([&] {
    const int replica = get_replica_context().replica_id_in_sync_group();
    const Call own = whole.shard(first_row(num_rows, replicas, replica), first_row(num_rows, replicas, replica + 1));
    const Tensor y_pred = own.y_pred.detach().requires_grad_(true);
    const Tensor share = tested.share(own.y_true, y_pred, own.sample_weight, num_rows, own.mask);
    return std::vector<Tensor>{share.detach(), gradients(share, {y_pred})[0]};
  });
  Tensor total = results[0][0];
  std::vector<Tensor> gradient{results[0][1]};
  for (size_t replica = 1; replica < results.size(); ++replica) {
    total = total + results[replica][0];
    gradient.push_back(results[replica][1]);
  }
  EXPECT_TRUE(oracle::equals(total, test.at("expected"))) << total << test.at("expected");
  EXPECT_TRUE(oracle::equals(at::cat(gradient), test.at("gradient"))) << at::cat(gradient) << test.at("gradient");
}

TEST(LossesOracle, SharesOfReplicasAddUpToKerasLossOfTheWholeBatch) {
  for (const Json& test : recorded_losses()) {
    // Unreduced losses have no shares.
    if (reduction(test.at("arguments")) == Reduction::none) continue;
    for (const int replicas : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << test.at("name") << " on " << replicas << " replicas");
      expect_shares_add_up(test, replicas);
    }
  }
}

}  // namespace
}  // namespace tutti::keras
