// Functions that take elements of iterators, against the same without recording.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <array>
#include <list>
#include <set>
#include <thread>

#include "tests/support/dice.h"
#include "tests/support/error_of.h"
#include "tutti/data/dataset.h"
#include "tutti/data/distributed_loader.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/gradients.h"
#include "tutti/distribute/loss_scaling.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/dtensor/dtensor_dataset.h"
#include "tutti/function/functions.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/optimizers/adam.h"
#include "tutti/keras/sequential.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Pair = std::tuple<Tensor, Tensor>;

// What a step trains.
struct Line {
  torch::nn::Linear layer{nullptr};
  std::optional<torch::optim::SGD> sgd;

  Line() {
    torch::manual_seed(3);
    layer = torch::nn::Linear(2, 1);
    sgd.emplace(layer->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    sgd->zero_grad();
    const Tensor loss = (layer->forward(x).squeeze(1) - y).square().mean();
    loss.backward();
    sgd->step();
    return loss.detach();
  }
  bool is_like(const Line& other) const { return torch::equal(layer->weight, other.layer->weight); }
};

data::Dataset<Pair> pairs(int64_t rows) {
  torch::manual_seed(11);
  return data::from_tensor_slices(Pair(torch::randn({rows, 2}), torch::randn({rows})));
}

auto numbers(int64_t n) { return data::from_tensor_slices(torch::arange(static_cast<float>(n))); }

// Adds what it is told to a sum, which tells what was done and in which order.
struct Sum {
  Tensor value = torch::zeros({}, torch::kDouble);
  void add(const Tensor& x) { value.mul_(10).add_(x); }
  double now() const { return value.item<double>(); }
};

TEST(FunctionIterator, EachCallTakesAnElementAndAShortBatchIsAnotherRecording) {
  Line plain, own;
  const auto dataset = pairs(14).batch(4);
  const auto step = function([&](auto& iterator) {
    const auto [x, y] = next(iterator);
    return own.step(x, y);
  });
  for (int epoch = 0; epoch < 4; ++epoch) {
    auto iterator = dataset.begin();
    for (const auto& [x, y] : dataset) EXPECT_TRUE(torch::equal(step(iterator), plain.step(x, y))) << epoch;
    EXPECT_TRUE(iterator == std::default_sentinel);
    EXPECT_TRUE(own.is_like(plain)) << epoch;
  }
  EXPECT_LE(step.tracing_count(), 5);  // the first one makes the momentum
  EXPECT_THAT(step.pretty_printed_concrete_signatures(), AllOf(HasSubstr("(next: float32 [4, 2], float32 [4])"),
                                                               HasSubstr("(next: float32 [2, 2], float32 [2])")));
  auto iterator = dataset.begin();
  EXPECT_THAT(step.get_concrete_function(iterator).graph().to_string(), HasSubstr("argument 1 float32 [4]"));
}

TEST(FunctionIterator, AtTheEndOfTheDataNothingIsDone) {
  Sum sum;
  const auto step = function([&](auto& iterator) { sum.add(next(iterator)); }, {.name = "step"});
  const auto dataset = numbers(4);
  auto iterator = dataset.begin();
  for (int i = 0; i < 4; ++i) step(iterator);
  EXPECT_EQ(sum.now(), 123);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of([&] { step(iterator); }),
              "out_of_range: step: the data ended after 0 of 1 elements that a call takes; nothing of it was done");
    EXPECT_EQ(sum.now(), 123);
  }
  auto again = dataset.begin();
  step(again);
  EXPECT_EQ(sum.now(), 1230);
  EXPECT_EQ(step.tracing_count(), 2);
}

TEST(FunctionIterator, TakesSeveralElementsInOneCall) {
  Sum plain, own;
  const auto take = [](Sum& sum, auto& iterator, int n) {
    for (int i = 0; i < n; ++i) sum.add(next(iterator));
  };
  const auto step = function([&](auto& iterator, int n) { take(own, iterator, n); }, {.name = "step"});
  const auto dataset = numbers(11);
  auto iterator = dataset.begin(), other = dataset.begin();
  for (const int n : {3, 1, 3, 1, 2}) {
    step(iterator, n);
    take(plain, other, n);
    EXPECT_EQ(own.now(), plain.now());
  }
  EXPECT_EQ(step.tracing_count(), 5);
  const double before = own.now();
  EXPECT_THAT(error_of([&] { step(iterator, 3); }), HasSubstr("step: the data ended after 1 of 3 elements"));
  EXPECT_EQ(own.now(), before);
}

TEST(FunctionIterator, TheFirstCallFindsTheEndWhereItStands) {
  Sum sum;
  const auto step = function([&](auto& iterator) {
    sum.add(next(iterator));
    sum.add(next(iterator));
  });
  const auto dataset = numbers(3);
  auto iterator = dataset.skip(2).begin();
  EXPECT_EQ(error_of([&] { step(iterator); }), "out_of_range: next: the data are at their end");
  EXPECT_EQ(sum.now(), 2);
  auto whole = dataset.repeat().begin();
  for (int i = 0; i < 3; ++i) step(whole);
  EXPECT_EQ(sum.now(), 2012012);
}

TEST(FunctionIterator, SeveralIteratorsGoOnInTheirOrder) {
  Sum plain, own;
  const auto take = [](Sum& sum, auto& a, auto& b) {
    sum.add(next(a));
    sum.add(next(b));
    sum.add(next(a) + 1);
  };
  const auto step = function([&](auto& a, auto& b) { take(own, a, b); });
  const auto dataset = numbers(40);
  auto a = dataset.begin(), b = dataset.begin(), c = dataset.begin(), d = dataset.begin();
  for (int i = 0; i < 4; ++i) {
    own.value.zero_();
    plain.value.zero_();
    step(a, b);
    take(plain, c, d);
    EXPECT_EQ(own.now(), plain.now());
    step(a, a);  // the same one twice is another recording
    take(plain, c, c);
    EXPECT_EQ(own.now(), plain.now());
  }
  EXPECT_EQ(step.tracing_count(), 4);
}

TEST(FunctionIterator, TheGuidesStepRunsReplicas) {
  struct Replicated {
    MirroredStrategy strategy{{.devices = configure_logical_cpus(2)}};
    keras::optimizers::Adam adam{{.learning_rate = 0.1}};
    keras::Sequential model = strategy.build([] {
      torch::manual_seed(5);
      keras::Sequential made(
          {keras::layers::Dense({.units = 3, .activation = "relu"}), keras::layers::Dense({.units = 1})});
      made.build({keras::kUnknown, 2});
      return made;
    });
    Tensor step(const PerReplica<Pair>& batch) {
      const auto losses = strategy.run(
          [&](const Tensor& x, const Tensor& y) {
            const Tensor loss = compute_average_loss((model(x).squeeze(1) - y).square(), {.global_batch_size = 4});
            adam.apply_gradients(gradients(loss, model.trainable_variables()), model.trainable_variables());
            return loss.detach();
          },
          batch);
      return strategy.reduce(ReduceOp::sum, losses);
    }
  } plain, own;
  const auto step = function([&](auto& iterator) { return own.step(next(iterator)); });
  const auto batches = pairs(14).batch(4);  // of the last one each replica has one row
  for (int epoch = 0; epoch < 4; ++epoch) {
    const auto distributed = own.strategy.distribute(batches);
    auto iterator = distributed.begin();
    for (const auto& batch : plain.strategy.distribute(batches))
      EXPECT_TRUE(torch::equal(step(iterator), plain.step(batch))) << epoch;
    EXPECT_EQ(code_of([&] { step(iterator); }), ErrorCode::out_of_range);
  }
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(torch::equal(own.model.get_weights()[i], plain.model.get_weights()[i])) << i;
  EXPECT_LE(step.tracing_count(), 5);
}

TEST(FunctionIterator, AFunctionThatCannotBeRecordedTakesEachElementOnce) {
  for (const int unrecordable_at : {0, 1, 2}) {  // before, between or after its elements
    Sum plain, own;
    const auto take = [=](Sum& sum, auto& iterator) {
      for (int i = 0; i < 3; ++i) {
        if (i == unrecordable_at) sum.value.add_(sum.value.item<double>());
        if (i < 2) sum.add(next(iterator));
      }
    };
    std::vector<std::string> reasons;
    const auto step = function([&](auto& iterator) { take(own, iterator); },
                               {.if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
    const auto dataset = numbers(9);
    auto iterator = dataset.begin(), other = dataset.begin();
    for (int i = 0; i < 4; ++i) {
      step(iterator);
      take(plain, other);
      EXPECT_EQ(own.now(), plain.now());
    }
    EXPECT_THAT(reasons, ElementsAre(HasSubstr("item()")));
  }
}

TEST(FunctionIterator, CallsOfMoreShapesThanAllowedTakeWhatWasFetchedForThem) {
  Sum plain, own;
  std::vector<std::string> reasons;
  const auto step =
      function([&](auto& iterator) { own.add(next(iterator).sum() + next(iterator).sum()); },
               {.max_traces = 1, .if_unrecordable = [&](const Error& why) { reasons.emplace_back(why.what()); }});
  const auto dataset = numbers(26).batch(4);
  auto iterator = dataset.begin(), other = dataset.begin();
  for (int i = 0; i < 3; ++i) {
    step(iterator);
    plain.add(next(other).sum() + next(other).sum());
  }
  auto rest = dataset.skip(5).begin(), others = dataset.skip(5).begin();
  step(rest);
  plain.add(next(others).sum() + next(others).sum());
  EXPECT_EQ(own.now(), plain.now());
  EXPECT_THAT(reasons, ElementsAre(HasSubstr("would be recording 2")));
}

// What would be lost is told.
TEST(FunctionIterator, HowManyElementsACallTakesIsKnownBeforeIt) {
  int n = 2;
  Sum sum;
  const auto f = [&](auto& iterator) {
    for (int i = 0; i < n; ++i) sum.add(next(iterator));
  };
  const auto step = function(f, {.name = "step"});
  const auto dataset = numbers(20);
  auto iterator = dataset.begin();
  step(iterator);
  n = 1;
  EXPECT_THAT(error_of([&] { step(iterator); }),
              AllOf(HasSubstr("failed_precondition: step: 2 elements were fetched"), HasSubstr("it took 1")));
  n = 3;
  EXPECT_THAT(error_of([&] { step(iterator); }),
              HasSubstr("step: the function took 3 elements of its iterators, and 2"));
  const auto told = function(f, {.name = "told", .depends_on = [&] { return int64_t{n}; }});
  auto other = dataset.begin();
  sum.value.zero_();
  for (const int count : {1, 2, 1, 2, 1, 2}) {
    n = count;
    told(other);
  }
  EXPECT_EQ(sum.now(), 12345678);
}

TEST(FunctionIterator, ElementsAreTakenWhereACallCanHaveThemBeforeItRuns) {
  const auto dataset = numbers(20);
  auto iterator = dataset.begin();
  const Tensor flag = torch::ones({}, torch::kBool);
  const auto branch = function([&](auto& given) {
    return cond(
        flag, [&] { return next(given); }, [] { return torch::zeros({}); });
  });
  EXPECT_THAT(error_of([&] { branch(iterator); }), HasSubstr("in a branch of cond, or in a loop"));
  const auto captured = function([&](const Tensor& x) { return x + next(iterator); });
  EXPECT_THAT(error_of([&] { captured(torch::ones({})); }), HasSubstr("of an iterator that is no argument"));
  const auto once = function([&](auto& given) { return init_scope([&] { return next(given); }); }, {.name = "once"});
  EXPECT_THAT(error_of([&] { once(iterator); }), HasSubstr("once: next takes an element in init_scope or host_call"));
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const auto replicas = function([&](auto& given) { return strategy.run([&] { return next(given); }); });
  EXPECT_THAT(error_of([&] { replicas(iterator); }), HasSubstr("in run"));
}

TEST(FunctionIterator, ADatasetThatAFunctionLooksAtItselfIsRefused) {
  const auto dataset = data::from_tensors(torch::ones({2})).repeat(9);  // each element is the same tensor
  const auto moved = function([](auto& iterator) {
    const Tensor x = *iterator;
    ++iterator;
    return x;
  });
  auto iterator = dataset.begin();
  EXPECT_THAT(error_of([&] { moved(iterator); }), AllOf(HasSubstr("failed_precondition"), HasSubstr("next(iterator)")));
  const auto looped = function([&] {
    Tensor sum = torch::zeros({2});
    for (const Tensor& x : dataset) sum = sum + x;
    return sum;
  });
  EXPECT_THAT(error_of([&] { looped(); }), HasSubstr("next(iterator)"));
  const auto made_once = function([&](const Tensor& x) {
    return x * init_scope([&] {
             Tensor sum = torch::zeros({2});
             for (const Tensor& element : dataset) sum.add_(element);
             return sum;
           });
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(torch::equal(made_once(torch::ones({2})), torch::full({2}, 9.F)));
}

TEST(FunctionIterator, AnErrorOfAnElementComesBeforeTheCallAndTheNextOneGoesOnBehind) {
  Sum sum;
  const auto dataset = numbers(8).map([](const Tensor& x) {
    if (x.item<float>() == 4) throw std::runtime_error("four");
    return x;
  });
  const auto step = function([&](auto& iterator) { sum.add(next(iterator)); });
  auto iterator = dataset.begin();
  for (int i = 0; i < 4; ++i) step(iterator);
  EXPECT_THAT(what_of([&] { step(iterator); }), HasSubstr("four"));
  EXPECT_EQ(sum.now(), 123);
  step(iterator);
  EXPECT_EQ(sum.now(), 1235);
}

TEST(FunctionIterator, IsSavedBetweenCallsWhereALoopWouldSaveIt) {
  const auto dataset = numbers(12).shuffle(4, {.seed = 3});
  Sum own, rest;
  const auto step = function([&](auto& iterator) { own.add(next(iterator)); });
  auto iterator = dataset.begin();
  for (int i = 0; i < 5; ++i) step(iterator);
  const Tensor state = iterator.save_state();
  own.value.zero_();
  for (int i = 0; i < 7; ++i) step(iterator);
  auto restored = dataset.begin();
  restored.restore_state(state);
  for (; restored != std::default_sentinel; ++restored) rest.add(*restored);
  EXPECT_EQ(own.now(), rest.now());
}

TEST(FunctionIterator, FunctionsInAFunctionAndPlainOnesTakeOfTheSameIterator) {
  Sum plain, own;
  const auto inner = function([&](auto& iterator) { own.add(next(iterator)); });
  const auto outer = function([&](auto& iterator) {
    inner(iterator);
    own.add(next(iterator));
    inner(iterator);
  });
  const auto dataset = numbers(30);
  auto iterator = dataset.begin(), other = dataset.begin();
  const auto compare = [&](int n) {
    for (int i = 0; i < n; ++i) plain.add(next(other));
    EXPECT_EQ(own.now(), plain.now());
    own.value.zero_();
    plain.value.zero_();
  };
  for (int i = 0; i < 4; ++i) {
    outer(iterator);
    compare(3);
    inner(iterator);
    compare(1);
  }
  run_functions_eagerly(true);
  outer(iterator);
  run_functions_eagerly(false);
  compare(3);
  own.add(next(iterator));
  compare(1);
}

// The outer one cannot be recorded, so that its calls of the inner one are calls.
TEST(FunctionIterator, AFunctionTakesWhatTheOneAroundItHasFetched) {
  Sum plain, own;
  const auto inner = function([&](auto& iterator) { own.add(next(iterator)); });
  bool reads = false;
  const auto outer = function(
      [&](auto& iterator) {
        own.add(next(iterator));
        if (reads) own.value.item<double>();
        inner(iterator);
        own.add(next(iterator));
      },
      {.if_unrecordable = [](const Error&) {}});
  const auto dataset = numbers(30);
  auto iterator = dataset.begin(), other = dataset.begin();
  for (int i = 0; i < 5; ++i) {
    own.value.zero_();
    plain.value.zero_();
    reads = i > 0;
    outer(iterator);
    for (int k = 0; k < 3; ++k) plain.add(next(other));
    EXPECT_EQ(own.now(), plain.now()) << i;
  }
}

TEST(FunctionIterator, GradientsGoThroughACallToVariables) {
  Line plain, own;
  const auto loss_of = [](Line& line, auto& iterator) {
    const auto [x, y] = next(iterator);
    return (line.layer->forward(x).squeeze(1) - y).square().mean();
  };
  const auto loss = function([&](auto& iterator) { return loss_of(own, iterator); });
  const auto dataset = pairs(4).batch(4).repeat();
  auto iterator = dataset.begin(), other = dataset.begin();
  const auto train = [](Line& line, const Tensor& value) {
    line.sgd->zero_grad();
    value.backward();
    line.sgd->step();
  };
  for (int i = 0; i < 6; ++i) {
    train(own, loss(iterator));
    train(plain, loss_of(plain, other));
    EXPECT_TRUE(own.is_like(plain)) << i;
  }
  EXPECT_EQ(loss.tracing_count(), 2);
}

TEST(FunctionIterator, AnElementMayBeWrittenReturnedAndDifferentiated) {
  const auto f = [](auto& iterator) {
    Tensor x = next(iterator);
    x.mul_(2);
    const Tensor leaf = next(iterator).requires_grad_();
    const Tensor gradient = torch::autograd::grad({leaf.square().sum()}, {leaf})[0];
    return std::tuple(x, gradient, x.view({-1}));
  };
  const auto g = function(f);
  const auto dataset = numbers(24).batch(4).map([](const Tensor& x) { return x.clone(); }).repeat();
  auto iterator = dataset.begin(), other = dataset.begin();
  for (int i = 0; i < 5; ++i) {
    const auto [a, b, c] = g(iterator);
    const auto [x, y, z] = f(other);
    EXPECT_TRUE(torch::equal(a, x) && torch::equal(b, y) && torch::equal(c, z)) << i;
    EXPECT_TRUE(c.is_alias_of(a)) << i;
  }
}

TEST(FunctionIterator, TakesBatchesOfALoaderAndMeshTensors) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  std::list<Pair> batches;
  for (const int rows : {4, 4, 4, 2}) batches.emplace_back(torch::randn({rows}), torch::randn({rows}));
  const data::DistributedLoader loader(batches, 2);
  const auto loaded = [&](auto& iterator) {
    const auto sums = strategy.run([](const Tensor& x, const Tensor& y) { return (x * y).sum(); }, next(iterator));
    return strategy.reduce(ReduceOp::sum, sums);
  };
  const auto step = function(loaded);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<float> made, wanted;
    for (auto iterator = loader.begin(); iterator != std::default_sentinel;)
      made.push_back(step(iterator).template item<float>());
    for (auto iterator = loader.begin(); iterator != std::default_sentinel;)
      wanted.push_back(loaded(iterator).template item<float>());
    EXPECT_EQ(made, wanted);
    EXPECT_THAT(made, testing::SizeIs(4));
  }
  EXPECT_EQ(step.tracing_count(), 4);

  const Mesh mesh({{"x", 2}}, configure_logical_cpus(2), {.merge = false});
  const dtensor::DTensorDataset<Tensor> dataset(
      numbers(24), {.mesh = mesh, .layouts = {Layout({"x"}, mesh)}, .global_batch_size = 4, .batch_dim = "x"});
  const auto sum = [](auto& iterator) { return next(iterator).square().sum(); };
  const auto summed = function(sum);
  auto iterator = dataset.begin(), other = dataset.begin();
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(torch::equal(gather(summed(iterator)), gather(sum(other)))) << i;
  EXPECT_EQ(summed.tracing_count(), 2);
}

TEST(FunctionIterator, EachThreadHasAnIteratorOfItsOwn) {
  const auto step = function([](auto& iterator) { return next(iterator) + next(iterator); });
  const auto dataset = numbers(200);
  std::array<double, 4> sums{};
  std::vector<std::thread> threads;
  for (double& sum : sums)
    threads.emplace_back([&] {
      auto iterator = dataset.begin();
      for (int i = 0; i < 100; ++i) sum += step(iterator).template item<double>();
    });
  for (std::thread& thread : threads) thread.join();
  for (const double sum : sums) EXPECT_EQ(sum, 199 * 100);
  EXPECT_EQ(step.tracing_count(), 2);
}

TEST(FunctionIterator, AnErrorInAReplayIsItsOwnAndTheNextCallTakesTheNextElement) {
  const auto labels = data::from_tensor_slices(torch::tensor({0, 1, 2, 9, 1}));
  const Tensor logits = torch::randn({1, 3});
  const auto step = function([&](auto& iterator) { return torch::nll_loss(logits, next(iterator).view({1})); });
  auto iterator = labels.begin();
  for (int i = 0; i < 3; ++i) step(iterator);
  EXPECT_THAT(what_of([&] { step(iterator); }), HasSubstr("out of bounds"));
  EXPECT_TRUE(torch::equal(step(iterator), torch::nll_loss(logits, torch::tensor({1}))));
  EXPECT_TRUE(iterator == std::default_sentinel);
}

TEST(FunctionIterator, RandomCallsDoWhatPlainOnesDoUpToTheEndOfTheData) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    fuzz::Dice dice(seed);
    std::vector<std::vector<int64_t>> patterns(3);  // of which iterator a call takes its elements
    for (auto& pattern : patterns)
      for (int64_t left = dice.below(5); left > 0; --left) pattern.push_back(dice.below(2));
    const auto take = [&](Sum& sum, auto& a, auto& b, size_t pattern) {
      for (const int64_t which : patterns[pattern]) {
        const Tensor x = which ? next(a) : next(b);
        sum.add(x.sum() + static_cast<double>(x.size(0)));
      }
    };
    Sum plain, own;
    const auto step = function([&](auto& a, auto& b, size_t pattern) { take(own, a, b, pattern); });
    const auto first = numbers(dice.between(1, 40)).batch(dice.between(1, 4));
    const auto second = numbers(dice.between(1, 40)).batch(dice.between(1, 4));
    std::set<size_t> known;
    for (int epoch = 0; epoch < 3; ++epoch) {
      auto a = first.begin(), b = second.begin(), c = first.begin(), d = second.begin();
      for (std::string error = "no error"; error == "no error";) {
        const auto pattern = static_cast<size_t>(dice.below(3));
        if (patterns[pattern].empty() && dice.chance(10)) break;
        const double before = own.now();
        error = error_of([&] { step(a, b, pattern); });
        EXPECT_EQ(error_of([&] { take(plain, c, d, pattern); }) == "no error", error == "no error") << seed;
        const bool is_known = !known.insert(pattern).second;
        if (error != "no error") {
          EXPECT_THAT(error, HasSubstr("out_of_range"));
          if (is_known) {
            EXPECT_EQ(own.now(), before) << seed;
          } else {
            known.erase(pattern);
          }
          plain.value.copy_(own.value);
        }
        ASSERT_EQ(own.now(), plain.now()) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace tutti
