// What compiled programs draw: the distributions are LibTorch's, the numbers follow from a state.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "tests/support/portable_artifact.h"
#include "tutti/pjrt/buffer.h"
#include "tutti/pjrt/compile_options.h"
#include "tutti/pjrt/executable.h"
#include "tutti/pjrt/topology_description.h"
#include "tutti/stablehlo/lowerings.h"

namespace tutti::stablehlo {
namespace {

constexpr int64_t kNumbers = 20000;

#define SKIP_WITHOUT_XLA()                            \
  if (!std::filesystem::exists(TUTTI_XLA_CPU_PLUGIN)) \
  GTEST_SKIP() << "there is no plugin here: ./dev test -L pjrt fetches it"

// Gives what a call draws from a state, as numbers of float64.
std::string module_that_draws(const std::string& op, const std::vector<at::IValue>& arguments, const Type& type,
                              const std::vector<int64_t>& state = {7, 0}) {
  Builder builder;
  Call call{.op = base_name(op), .results = {type}};
  for (const at::IValue& argument : arguments) {
    if (argument.isTensor()) {
      const at::Tensor tensor = argument.toTensor().contiguous();
      const Dims dims(tensor.sizes().begin(), tensor.sizes().end());
      call.arguments.push_back(
          {.values = {builder.dense(tensor.const_data_ptr(), tensor.nbytes(), {tensor.scalar_type(), dims})},
           .is_tensor = true});
    } else {
      call.arguments.push_back({.constant = argument});
    }
  }
  call.random_state = builder.dense(state.data(), 16, {at::kUInt64, {2}});
  const Value numbers = lower(builder, call, "in this test").at(0).value();
  return builder.module("test", {builder.convert(numbers, at::kDouble)}, {}, 1);
}

at::Tensor drawn(const std::string& op, const std::vector<at::IValue>& arguments, const Type& type,
                 const std::vector<int64_t>& state = {7, 0}) {
  static const auto client = pjrt::Client::create(pjrt::Plugin::load(TUTTI_XLA_CPU_PLUGIN));
  const std::string module = module_that_draws(op, arguments, type, state);
  EXPECT_THAT(pjrt::portable_artifact(TUTTI_XLA_CPU_PLUGIN, module, "0.9.0"), testing::HasSubstr("StableHLO_v0.9.0"));
  const auto program = client->compile(module, {});
  const auto made = program.run({{}});
  auto result = std::make_shared<at::Tensor>(at::empty(type.dims, at::kDouble));
  made.outputs[0][0].read(result->data_ptr(), static_cast<int64_t>(result->nbytes()), result).wait();
  return *result;
}

at::Tensor in_place(const std::string& op, double first, double second, at::ScalarType dtype = at::kFloat) {
  return drawn(op, {at::zeros({1}, dtype), first, second, at::IValue()}, {dtype, {kNumbers}});
}

// The largest distance between the shares of the numbers up to any one and what a distribution says (Kolmogorov and
// Smirnov); beyond 1.95 / √n once in a thousand. The state is the same each time, so the numbers are, too.
double distance(const at::Tensor& numbers, const std::function<double(double)>& share) {
  const at::Tensor sorted = std::get<0>(numbers.flatten().sort());
  const auto n = static_cast<double>(sorted.numel());
  double largest = 0;
  for (int64_t i = 0; i < sorted.numel(); ++i) {
    const double expected = share(sorted.const_data_ptr<double>()[i]), here = static_cast<double>(i);
    largest = std::max({largest, expected - here / n, (here + 1) / n - expected});
  }
  return largest;
}
const double kLargest = 1.95 / std::sqrt(kNumbers);

double normal_share(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

TEST(RandomLowerings, UniformNumbersFillTheirRange) {
  SKIP_WITHOUT_XLA();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor numbers = in_place("aten::uniform_", -1, 3, dtype);
    EXPECT_LT(distance(numbers, [](double x) { return (x + 1) / 4; }), kLargest);
    EXPECT_GE(numbers.min().item<double>(), -1);
    EXPECT_LT(numbers.max().item<double>(), 3);
  }
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    const at::Tensor numbers = drawn("aten::rand", {std::vector<int64_t>{kNumbers}}, {dtype, {kNumbers}});
    EXPECT_NEAR(numbers.mean().item<double>(), 0.5, 0.02);
    EXPECT_LT(numbers.max().item<double>(), 1) << "a number that is rounded up to 1";
    EXPECT_EQ(numbers.min().item<double>(), 0);
  }
}

TEST(RandomLowerings, NormalNumbersHaveTheirMeanAndDeviation) {
  SKIP_WITHOUT_XLA();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
    EXPECT_LT(distance(in_place("aten::normal_", 2, 0.5, dtype), [](double x) { return normal_share((x - 2) / 0.5); }),
              kLargest);
  EXPECT_LT(distance(drawn("aten::randn_like", {at::zeros({1})}, {at::kFloat, {100, 200}}), normal_share), kLargest);
  const at::Tensor means = at::arange(kNumbers, at::kFloat);
  const at::Tensor each =
      drawn("aten::normal.Tensor_float", {means, 3.0, at::IValue()}, {at::kFloat, {kNumbers}}) - means;
  EXPECT_LT(distance(each / 3, normal_share), kLargest);
}

TEST(RandomLowerings, BernoullisShareIsTheProbability) {
  SKIP_WITHOUT_XLA();
  const auto share = [](const at::Tensor& numbers) { return numbers.mean().item<double>(); };
  const Type type{at::kFloat, {kNumbers}};
  EXPECT_NEAR(share(drawn("aten::bernoulli_.float", {at::zeros({1}), 0.3, at::IValue()}, type)), 0.3, 0.01);
  EXPECT_EQ(share(drawn("aten::bernoulli_.float", {at::zeros({1}), 1.0, at::IValue()}, type)), 1);
  EXPECT_EQ(share(drawn("aten::bernoulli_.float", {at::zeros({1}), 0.0, at::IValue()}, type)), 0);
  const at::Tensor p = at::arange(2, at::kFloat).repeat(kNumbers / 2);
  EXPECT_TRUE(at::equal(drawn("aten::bernoulli", {p, at::IValue()}, type), p.to(at::kDouble)));
  EXPECT_TRUE(
      at::equal(drawn("aten::bernoulli_.Tensor", {at::zeros({kNumbers}), p, at::IValue()}, type), p.to(at::kDouble)));
}

TEST(RandomLowerings, ExponentialNumbersHaveTheirRate) {
  SKIP_WITHOUT_XLA();
  const at::Tensor numbers = drawn("aten::exponential_", {at::zeros({1}), 4.0, at::IValue()}, {at::kFloat, {kNumbers}});
  EXPECT_LT(distance(numbers, [](double x) { return 1 - std::exp(-4 * x); }), kLargest);
  EXPECT_TRUE(numbers.isfinite().all().item<bool>());
}

TEST(RandomLowerings, WholeNumbersAreAllOfTheirRange) {
  SKIP_WITHOUT_XLA();
  const Type type{at::kLong, {kNumbers}};
  const std::vector<int64_t> sizes{kNumbers};
  for (const at::Tensor& numbers :
       {drawn("aten::randint.low", {int64_t{-3}, int64_t{5}, sizes}, type),
        drawn("aten::randint", {int64_t{8}, sizes}, type) - 3,
        drawn("aten::randint_like.low_dtype", {at::zeros({kNumbers}), int64_t{-3}, int64_t{5}}, type),
        drawn("aten::random_.from", {at::zeros({1}), int64_t{-3}, int64_t{5}, at::IValue()}, type),
        drawn("aten::random_.to", {at::zeros({1}), int64_t{8}, at::IValue()}, type) - 3})
    for (int64_t one = -3; one < 5; ++one) EXPECT_NEAR((numbers == one).sum().item<double>(), kNumbers / 8, 250) << one;
  const at::Tensor all = drawn("aten::random_", {at::zeros({1}), at::IValue()}, type);
  EXPECT_GE(all.min().item<double>(), 0);
  EXPECT_NEAR(all.mean().item<double>() / std::ldexp(1.0, 62), 1, 0.02);
  const at::Tensor flags = drawn("aten::random_", {at::zeros({1}), at::IValue()}, {at::kBool, {kNumbers}});
  EXPECT_NEAR(flags.mean().item<double>(), 0.5, 0.02);
}

TEST(RandomLowerings, FollowFromTheStateAlone) {
  SKIP_WITHOUT_XLA();
  const auto numbers = [](std::vector<int64_t> state) {
    return drawn("aten::rand", {std::vector<int64_t>{64}}, {at::kFloat, {64}}, std::move(state));
  };
  EXPECT_TRUE(at::equal(numbers({1, 5}), numbers({1, 5})));
  EXPECT_FALSE((numbers({1, 5}) == numbers({2, 5})).any().item<bool>()) << "another key";
  const at::Tensor later = numbers({1, int64_t{1} << 32});
  EXPECT_FALSE((numbers({1, 0}) == later).any().item<bool>()) << "another call";
}

TEST(RandomLowerings, OfNoElementsDrawNothing) {
  SKIP_WITHOUT_XLA();
  EXPECT_EQ(drawn("aten::randn", {std::vector<int64_t>{0, 3}}, {at::kFloat, {0, 3}}).numel(), 0);
}

TEST(RandomLowerings, CompileForAV5e) {
  if (!std::filesystem::exists(TUTTI_LIBTPU)) GTEST_SKIP() << "there is no libtpu here: ./dev test -L pjrt fetches it";
  const pjrt::TopologyDescription v5e(pjrt::Plugin::load(TUTTI_LIBTPU), "v5e:2x2");
  const std::vector<int64_t> sizes{5, 7};
  const at::Tensor zeros = at::zeros(sizes);
  const at::IValue none;
  const std::pair<const char*, std::vector<at::IValue>> calls[] = {{"aten::uniform_", {zeros, -1.0, 3.0, none}},
                                                                   {"aten::normal_", {zeros, 2.0, 0.5, none}},
                                                                   {"aten::rand", {sizes}},
                                                                   {"aten::randn", {sizes}},
                                                                   {"aten::rand_like", {zeros}},
                                                                   {"aten::randn_like", {zeros}},
                                                                   {"aten::bernoulli_.float", {zeros, 0.3, none}},
                                                                   {"aten::exponential_", {zeros, 4.0, none}},
                                                                   {"aten::random_", {zeros, none}},
                                                                   {"aten::randint", {int64_t{8}, sizes}},
                                                                   {"aten::randint_like", {zeros, int64_t{8}}}};
  for (const auto& [op, arguments] : calls)
    EXPECT_GT(v5e.compile(module_that_draws(op, arguments, {at::kFloat, {5, 7}}), {}).code_bytes(), 0) << op;
}

}  // namespace
}  // namespace tutti::stablehlo
