#include "tutti/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "tests/support/collected_warnings.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace tutti {
namespace {

using testing::HasSubstr;

torch::nn::Sequential make_net() {
  return torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4), torch::nn::Linear(4, 1));
}

template <class Optimizer>
void train(torch::nn::Sequential& net, Optimizer& optimizer, int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor x = torch::randn({8, 3});
    optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor loss = (net->forward(x) - x.sum(1, true)).square().mean();
      loss.backward();
      return loss;
    });
  }
}

void expect_equal(torch::nn::Sequential& a, torch::nn::Sequential& b) {
  for (const auto& parameter : a->named_parameters())
    EXPECT_TRUE(parameter.value().equal(b->named_parameters()[parameter.key()])) << parameter.key();
  for (const auto& buffer : a->named_buffers())
    EXPECT_TRUE(buffer.value().equal(b->named_buffers()[buffer.key()])) << buffer.key();
}

// Trains, saves, goes on; what was restored into fresh objects goes on in the same way, bit for bit.
template <class Optimizer, class Options>
void expect_resumes(const Options& options, int64_t steps_before) {
  const TemporaryFolder folder;
  torch::manual_seed(1);
  torch::nn::Sequential net = make_net();
  Optimizer optimizer(net->parameters(), options);
  train(net, optimizer, steps_before);
  optimizer.param_groups()[0].options().set_lr(0.03);
  Checkpoint({{"net", *net}, {"optimizer", optimizer}}).write(folder.path() / "c");
  train(net, optimizer, 3);

  torch::manual_seed(2);
  torch::nn::Sequential again = make_net();
  Optimizer other(again->parameters(), options);
  Checkpoint({{"net", *again}, {"optimizer", other}}).restore(folder.path() / "c").assert_consumed();
  train(again, other, 3);
  expect_equal(net, again);
}

TEST(Checkpoint, TrainingGoesOnBitForBit) {
  namespace optim = torch::optim;
  for (const int64_t steps : {0, 4}) {
    expect_resumes<optim::SGD>(optim::SGDOptions(0.1), steps);
    expect_resumes<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9), steps);
    expect_resumes<optim::Adam>(optim::AdamOptions(0.1), steps);
    expect_resumes<optim::Adam>(optim::AdamOptions(0.1).amsgrad(true), steps);
    expect_resumes<optim::AdamW>(optim::AdamWOptions(0.1), steps);
    expect_resumes<optim::Adagrad>(optim::AdagradOptions(0.1), steps);
    expect_resumes<optim::RMSprop>(optim::RMSpropOptions(0.1).momentum(0.9).centered(true), steps);
    expect_resumes<optim::LBFGS>(optim::LBFGSOptions(0.1).max_iter(4).history_size(5), steps);
  }
}

TEST(Checkpoint, MomentumOfSparseGradientsIsSavedDense) {
  const TemporaryFolder folder;
  const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  torch::nn::Embedding again(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  torch::optim::SGD optimizer(table->parameters(), options);
  torch::optim::SGD used(again->parameters(), options);
  const auto step = [](torch::nn::Embedding& rows, torch::optim::SGD& updates, std::vector<int64_t> ids) {
    updates.zero_grad();
    rows->forward(torch::tensor(ids)).square().sum().backward();
    updates.step();
  };
  step(table, optimizer, {0, 3, 3});
  step(table, optimizer, {3, 4});
  step(again, used, {1});  // whose own momentum is sparse, too
  Checkpoint({{"table", *table}, {"optimizer", optimizer}}).write(folder.path() / "c");
  Checkpoint({{"table", *again}, {"optimizer", used}}).restore(folder.path() / "c").assert_consumed();
  EXPECT_TRUE(again->weight.equal(table->weight));
  step(table, optimizer, {2, 3});
  step(again, used, {2, 3});
  EXPECT_TRUE(torch::allclose(again->weight, table->weight));
}

TEST(Checkpoint, TellsWhichOptionsOfAnOptimizerWereOthersAndKeepsTheProgramsOwn) {
  const TemporaryFolder folder;
  const torch::nn::Sequential net = make_net();
  torch::optim::Adam saved(net->parameters(), torch::optim::AdamOptions(0.1).betas({0.8, 0.99}).weight_decay(0.5));
  Checkpoint({{"optimizer", saved}}).write(folder.path() / "c");

  torch::optim::Adam other(net->parameters(), torch::optim::AdamOptions(0.2).betas({0.8, 0.999}));
  CollectedWarnings warnings;
  Checkpoint({{"optimizer", other}}).restore(folder.path() / "c").assert_consumed();
  EXPECT_THAT(warnings.lines(), testing::UnorderedElementsAre(HasSubstr("beta_2 (group 0) was 0.99"),
                                                              HasSubstr("weight_decay (group 0) was 0.5")));
  const auto& options = static_cast<const torch::optim::AdamOptions&>(other.param_groups()[0].options());
  EXPECT_EQ(options.lr(), 0.1);
  EXPECT_EQ(std::get<1>(options.betas()), 0.999);
  EXPECT_EQ(options.weight_decay(), 0);
}

TEST(Checkpoint, RestoresIntoAnOptimizerThatWasUsed) {
  const TemporaryFolder folder;
  torch::nn::Sequential net = make_net();
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const Checkpoint checkpoint({{"net", net}, {"optimizer", optimizer}});
  checkpoint.write(folder.path() / "before");
  train(net, optimizer, 2);
  EXPECT_FALSE(optimizer.state().empty());
  checkpoint.restore(folder.path() / "before").assert_consumed();
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(Checkpoint, NumbersAndTensorsAreRestoredInPlace) {
  const TemporaryFolder folder;
  int64_t step = 7;
  double best = 0.25;
  const Tensor table = torch::arange(6).view({2, 3});
  const Checkpoint checkpoint({{"step", step}, {"best", best}, {"table", table}});
  checkpoint.write(folder.path() / "c");
  step = 0;
  best = 0;
  table.zero_();
  checkpoint.restore(folder.path() / "c").assert_consumed();
  EXPECT_EQ(step, 7);
  EXPECT_EQ(best, 0.25);
  EXPECT_TRUE(table.equal(torch::arange(6).view({2, 3})));
}

TEST(Checkpoint, AllThatDoesNotFitIsToldAtOnceAndNothingIsChanged) {
  const TemporaryFolder folder;
  const Tensor a = torch::ones({2}), b = torch::ones({3}), c = torch::ones({1});
  int64_t step = 1;
  Checkpoint({{"a", a}, {"b", b}, {"c", c}, {"step", step}}).write(folder.path() / "c");
  const Tensor good = torch::zeros({2}), shape = torch::zeros({4}), dtype = torch::zeros({1}, torch::kDouble);
  double number = 0;
  const Checkpoint other({{"a", good}, {"b", shape}, {"c", dtype}, {"step", number}, {"d", good}});
  const std::string error = error_of([&] { other.restore(folder.path() / "c").expect_partial(); });
  for (const char* part :
       {"failed_precondition", "nothing was changed", "'b' is Float [3] in the checkpoint and Float [4]",
        "'c' is Float [1] in the checkpoint and Double [1]", "'step' is not a floating-point number", "lacks 'd'"})
    EXPECT_THAT(error, HasSubstr(part));
  EXPECT_EQ(good.sum().item<double>(), 0);
}

TEST(Checkpoint, PartialRestoresAreNeverSilent) {
  const TemporaryFolder folder;
  const Tensor a = torch::ones({2}), b = torch::ones({3});
  Checkpoint({{"a", a}, {"b", b}}).write(folder.path() / "c");
  const Tensor target = torch::zeros({2}), added = torch::zeros({1});
  const Checkpoint other({{"a", target}, {"new", added}});
  CollectedWarnings warnings;
  { const RestoreStatus status = other.restore(folder.path() / "c"); }
  EXPECT_THAT(warnings.lines(), testing::ElementsAre(HasSubstr("lacks 'new'; nothing in the program takes 'b'")));
  warnings.clear();
  other.restore(folder.path() / "c").expect_partial();
  EXPECT_THAT(warnings.lines(), testing::IsEmpty());
  EXPECT_EQ(target.sum().item<double>(), 2);
  EXPECT_EQ(code_of([&] { other.restore(folder.path() / "c").assert_consumed(); }), ErrorCode::failed_precondition);
  EXPECT_EQ(code_of([&] { other.restore(folder.path() / "c").assert_existing_objects_matched(); }),
            ErrorCode::failed_precondition);
  Checkpoint({{"a", target}}).restore(folder.path() / "c").assert_existing_objects_matched();
}

TEST(Checkpoint, RandomNumbersGoOnWhereTheyWere) {
  const TemporaryFolder folder;
  int64_t step = 0;
  const Checkpoint checkpoint({{"step", step}});
  checkpoint.write(folder.path() / "c");
  const Tensor next = torch::rand({4});
  checkpoint.restore(folder.path() / "c").assert_consumed();
  EXPECT_TRUE(torch::rand({4}).equal(next));
}

TEST(Checkpoint, NamesAreChecked) {
  int64_t step = 0;
  for (const char* name : {"", "a/b", "random_state"})
    EXPECT_EQ(code_of([&] { Checkpoint({{name, step}}); }), ErrorCode::invalid_argument) << name;
  EXPECT_EQ(code_of([&] { Checkpoint({{"step", step}, {"step", step}}); }), ErrorCode::invalid_argument);
}

TEST(Checkpoint, AnLbfgsThatRanLongerIsTakenBack) {
  const TemporaryFolder folder;
  torch::manual_seed(1);  // not every start gives a history that grows
  torch::nn::Sequential net = make_net();
  torch::optim::LBFGS optimizer(net->parameters(), torch::optim::LBFGSOptions(0.1).max_iter(2));
  const auto history = [&] {
    const auto& state = *optimizer.state().at(net->parameters()[0].unsafeGetTensorImpl());
    return static_cast<const torch::optim::LBFGSParamState&>(state).old_dirs().size();
  };
  const Checkpoint checkpoint({{"net", *net}, {"optimizer", optimizer}});
  train(net, optimizer, 2);
  const size_t before = history();
  checkpoint.write(folder.path() / "c");
  train(net, optimizer, 3);
  EXPECT_GT(history(), before);
  checkpoint.restore(folder.path() / "c").assert_consumed();
  EXPECT_EQ(history(), before);
}

class OwnOptimizer : public torch::optim::Optimizer {
 public:
  explicit OwnOptimizer(const std::vector<Tensor>& parameters)
      : Optimizer(parameters, std::make_unique<torch::optim::SGDOptions>(0.1)) {
    state()[parameters[0].unsafeGetTensorImpl()] = std::make_unique<torch::optim::SGDParamState>();
  }
  Tensor step(LossClosure) override { return {}; }
};

TEST(Checkpoint, AnUnknownOptimizerIsRefusedByName) {
  const TemporaryFolder folder;
  torch::nn::Linear net(2, 1);
  OwnOptimizer optimizer(net->parameters());
  EXPECT_THAT(error_of([&] {
                Checkpoint({{"optimizer", optimizer}}).write(folder.path() / "c");
              }),
              testing::AllOf(HasSubstr("unimplemented"), HasSubstr("OwnOptimizer")));
}

}  // namespace
}  // namespace tutti
