#include "tutti/collectives/local/host_reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tutti/collectives/local/half.h"
#include "tutti/core/error.h"
#include "tutti/device/workers.h"

namespace tutti {
namespace {

using testing::HasSubstr;

template <class T>
double to_double(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return to_float(value);
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, Half>)
    return to_half(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

template <class T>
using Buffers = std::vector<std::vector<T>>;

template <class T>
Buffers<T> random_buffers(size_t num_buffers, size_t count) {
  std::mt19937 random(static_cast<unsigned>(1000 * num_buffers + count));
  std::uniform_real_distribution<double> values(std::is_unsigned_v<T> ? 0 : -12, 12);
  Buffers<T> buffers(num_buffers, std::vector<T>(count));
  for (auto& buffer : buffers)
    for (T& value : buffer) value = from_double<T>(values(random));
  return buffers;
}

template <class T>
std::vector<const void*> inputs_of(const Buffers<T>& buffers) {
  std::vector<const void*> pointers;
  for (const auto& buffer : buffers) pointers.push_back(buffer.data());
  return pointers;
}

template <class T>
std::vector<void*> outputs_of(Buffers<T>& buffers) {
  std::vector<void*> pointers;
  for (auto& buffer : buffers) pointers.push_back(buffer.data());
  return pointers;
}

void reduce(std::span<const ReductionItem> items, int num_threads = 1) {
  HostReduction reduction(items);
  Workers(num_threads).run([&](int) { reduction.run(); });
}

// What one element must be, within the rounding of its dtype.
template <class T>
void expect_sum(const Buffers<T>& inputs, double divisor, const std::vector<T>& result) {
  for (size_t j = 0; j < result.size(); ++j) {
    double sum = 0;
    double size = 0;
    for (const auto& input : inputs) {
      sum += to_double(input[j]);
      size += std::abs(to_double(input[j]));
    }
    const double epsilon = std::is_integral_v<T>       ? 0
                           : std::is_same_v<T, double> ? 1e-15
                           : std::is_same_v<T, float>  ? 5e-7
                           : std::is_same_v<T, Half>   ? 5e-4
                                                       : 4e-3;
    const double smallest = std::is_same_v<T, Half> ? 0x1p-25 : 0;  // half the step between subnormals
    ASSERT_NEAR(to_double(result[j]), sum / divisor, epsilon * size / divisor + smallest)
        << j << " of " << result.size();
  }
}

template <class T, Dtype kDtype, int kNumbers = 1>
struct Case {
  using Type = T;
  static constexpr Dtype dtype = kDtype;
  static constexpr size_t numbers = kNumbers;  // per element: two in a complex one
};

template <class C>
class ReductionOf : public testing::Test {};
using Cases = testing::Types<Case<float, Dtype::float32>, Case<double, Dtype::float64>, Case<Half, Dtype::float16>,
                             Case<BFloat16, Dtype::bfloat16>, Case<float, Dtype::complex64, 2>,
                             Case<double, Dtype::complex128, 2>, Case<int8_t, Dtype::int8>, Case<uint8_t, Dtype::uint8>,
                             Case<int16_t, Dtype::int16>, Case<int32_t, Dtype::int32>, Case<int64_t, Dtype::int64>>;
TYPED_TEST_SUITE(ReductionOf, Cases);

TYPED_TEST(ReductionOf, AnyNumberOfBuffersOfAnySizeIsTheirSumAndMean) {
  using T = typename TypeParam::Type;
  for (size_t num_buffers = 1; num_buffers <= 10; ++num_buffers)
    for (const size_t count : {0, 1, 3, 127, 1024, 70'001}) {
      for (const double divisor : {1.0, 3.0}) {
        if (std::is_integral_v<T> && divisor != 1) continue;
        const Buffers<T> inputs = random_buffers<T>(num_buffers, count * TypeParam::numbers);
        Buffers<T> in_place = inputs;
        const auto outputs = outputs_of(in_place);
        const auto pointers = inputs_of(in_place);
        const ReductionItem item{.dtype = TypeParam::dtype,
                                 .inputs = pointers,
                                 .outputs = outputs,
                                 .count = static_cast<int64_t>(count),
                                 .divisor = divisor};
        reduce({&item, 1});
        expect_sum(inputs, divisor, in_place.front());
        for (const auto& output : in_place)
          ASSERT_EQ(count == 0 ? 0 : std::memcmp(output.data(), in_place.front().data(), output.size() * sizeof(T)), 0);
      }
    }
}

TYPED_TEST(ReductionOf, IsEqualBitForBitForAnyNumberOfThreads) {
  using T = typename TypeParam::Type;
  for (const size_t num_buffers : {2, 5, 9}) {
    const Buffers<T> inputs = random_buffers<T>(num_buffers, 200'003 * TypeParam::numbers);
    std::vector<std::vector<T>> results;
    for (const int num_threads : {1, 4, 4}) {
      Buffers<T> result(1, std::vector<T>(inputs.front().size()));
      const auto outputs = outputs_of(result);
      const auto pointers = inputs_of(inputs);
      const ReductionItem item{.dtype = TypeParam::dtype, .inputs = pointers, .outputs = outputs, .count = 200'003};
      reduce({&item, 1}, num_threads);
      results.push_back(result.front());
    }
    for (const auto& result : results)
      ASSERT_EQ(std::memcmp(result.data(), results.front().data(), result.size() * sizeof(T)), 0);
  }
}

TYPED_TEST(ReductionOf, AnyNumberOfBuffersHasItsSumInOneOfThemOrApart) {
  using T = typename TypeParam::Type;
  for (size_t num_buffers = 1; num_buffers <= 10; ++num_buffers)
    for (const double divisor : {1.0, 3.0}) {
      if (std::is_integral_v<T> && divisor != 1) continue;
      const Buffers<T> inputs = random_buffers<T>(num_buffers, 1029 * TypeParam::numbers);
      for (size_t chosen = 0; chosen <= num_buffers; ++chosen) {
        Buffers<T> buffers = inputs;
        buffers.emplace_back(inputs.front().size());
        void* output = buffers[chosen].data();
        auto pointers = inputs_of(buffers);
        pointers.pop_back();
        const ReductionItem item{
            .dtype = TypeParam::dtype, .inputs = pointers, .outputs = {&output, 1}, .count = 1029, .divisor = divisor};
        reduce({&item, 1});
        expect_sum(inputs, divisor, buffers[chosen]);
        for (size_t other = 0; other < num_buffers; ++other) {
          if (other == chosen) continue;
          EXPECT_EQ(std::memcmp(buffers[other].data(), inputs[other].data(), inputs[other].size() * sizeof(T)), 0);
        }
      }
    }
}

TEST(HostReduction, OutputsMayBeAnyOfTheInputsOrApart) {
  const Buffers<float> inputs = random_buffers<float>(3, 5000);
  for (size_t aliased = 0; aliased < 3; ++aliased) {
    Buffers<float> buffers = inputs;
    Buffers<float> apart(1, std::vector<float>(5000));
    const auto pointers = inputs_of(buffers);
    const std::vector<void*> outputs = {buffers[aliased].data(), apart[0].data()};
    const ReductionItem item{.inputs = pointers, .outputs = outputs, .count = 5000};
    reduce({&item, 1});
    expect_sum(inputs, 1, buffers[aliased]);
    EXPECT_EQ(apart[0], buffers[aliased]);
    for (const size_t other : {(aliased + 1) % 3, (aliased + 2) % 3}) EXPECT_EQ(buffers[other], inputs[other]);
  }
}

// Inputs in replica order, one after the other: as a scalar loop adds.
TEST(HostReduction, AddsInReplicaOrder) {
  for (const size_t num_buffers : {3, 8, 12}) {
    const Buffers<float> inputs = random_buffers<float>(num_buffers, 1001);
    Buffers<float> result(1, std::vector<float>(1001));
    const auto outputs = outputs_of(result);
    const auto pointers = inputs_of(inputs);
    const ReductionItem item{.inputs = pointers, .outputs = outputs, .count = 1001};
    reduce({&item, 1});
    for (size_t j = 0; j < 1001; ++j) {
      float sum = inputs[0][j];
      for (size_t i = 1; i < num_buffers; ++i) sum += inputs[i][j];
      ASSERT_EQ(result[0][j], sum);
    }
  }
}

TEST(HostReduction, HalvesAreSummedInFloatAndRoundedOnce) {
  // 2048 + 1 is 2048 in float16, so that adding one by one would lose every one of them.
  Buffers<Half> buffers(9, std::vector<Half>(100, to_half(1)));
  buffers[0].assign(100, to_half(2048));
  const auto outputs = outputs_of(buffers);
  const auto pointers = inputs_of(buffers);
  const ReductionItem item{.dtype = Dtype::float16, .inputs = pointers, .outputs = outputs, .count = 100};
  reduce({&item, 1});
  for (const Half value : buffers[0]) EXPECT_EQ(to_float(value), 2056);
}

TEST(HostReduction, IntegersWrapAndFloatsOverflowToInfinity) {
  Buffers<int32_t> integers(2, std::vector<int32_t>(1, std::numeric_limits<int32_t>::max()));
  Buffers<float> floats(2, std::vector<float>(1, std::numeric_limits<float>::max()));
  const auto integer_outputs = outputs_of(integers), float_outputs = outputs_of(floats);
  const auto integer_inputs = inputs_of(integers), float_inputs = inputs_of(floats);
  const ReductionItem items[] = {
      {.dtype = Dtype::int32, .inputs = integer_inputs, .outputs = integer_outputs, .count = 1},
      {.dtype = Dtype::float32, .inputs = float_inputs, .outputs = float_outputs, .count = 1}};
  reduce(items);
  EXPECT_EQ(integers[0][0], -2);
  EXPECT_EQ(floats[1][0], std::numeric_limits<float>::infinity());
}

TEST(HostReduction, ABatchOfTensorsEqualsOneAtATime) {
  std::mt19937 random(5);
  std::vector<size_t> counts = {0, 1, 100'000, 16, 17, 16'384, 0};
  for (int i = 0; i < 300; ++i) counts.push_back(random() % 500);
  std::vector<Buffers<float>> together, apart;
  std::vector<std::vector<const void*>> inputs;
  std::vector<std::vector<void*>> outputs;
  for (const size_t count : counts) together.push_back(random_buffers<float>(1 + count % 4, count));
  apart = together;
  for (auto& buffers : together) {
    inputs.push_back(inputs_of(buffers));
    outputs.push_back(outputs_of(buffers));
  }
  std::vector<ReductionItem> items;
  for (size_t i = 0; i < counts.size(); ++i)
    items.push_back({.inputs = inputs[i], .outputs = outputs[i], .count = static_cast<int64_t>(counts[i])});
  for (const int num_threads : {1, 3}) {
    reduce(items, num_threads);
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto pointers = inputs_of(apart[i]);
      const auto results = outputs_of(apart[i]);
      const ReductionItem item{.inputs = pointers, .outputs = results, .count = items[i].count};
      reduce({&item, 1});
    }
    ASSERT_EQ(together, apart);
  }
}

TEST(HostReduction, OfNothingIsDone) {
  HostReduction reduction({});
  EXPECT_EQ(reduction.num_tiles(), 0);
  reduction.run();
}

TEST(HostReduction, TilesSayHowManyThreadsCanHelp) {
  std::vector<float> buffer(1);
  const void* input = buffer.data();
  void* output = buffer.data();
  const ReductionItem small{.inputs = {&input, 1}, .outputs = {&output, 1}, .count = 1};
  EXPECT_EQ(HostReduction({&small, 1}).num_tiles(), 1);
  const ReductionItem large{.inputs = {&input, 1}, .outputs = {&output, 1}, .count = 1'000'000};
  EXPECT_EQ(HostReduction({&large, 1}).num_tiles(), 62);
}

std::string refusal_of(const ReductionItem& item) {
  try {
    HostReduction reduction({&item, 1});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(HostReduction, WhatCannotBeReducedIsRefusedAtTheDoor) {
  float value = 0;
  const void* input = &value;
  void* output = &value;
  const ReductionItem good{.inputs = {&input, 1}, .outputs = {&output, 1}, .count = 1};
  EXPECT_EQ(refusal_of(good), "");
  const auto with = [&](auto change) {
    ReductionItem item = good;
    change(item);
    return refusal_of(item);
  };
  EXPECT_THAT(with([](ReductionItem& item) { item.inputs = {}; }), HasSubstr("at least one input"));
  EXPECT_THAT(with([](ReductionItem& item) { item.outputs = {}; }), HasSubstr("one output"));
  EXPECT_THAT(with([](ReductionItem& item) { item.count = -1; }), HasSubstr("out of range"));
  EXPECT_THAT(with([](ReductionItem& item) { item.count = std::numeric_limits<int64_t>::max(); }),
              HasSubstr("out of range"));
  EXPECT_THAT(with([](ReductionItem& item) { item.divisor = 0; }), HasSubstr("divisor 0"));
  EXPECT_THAT(with([](ReductionItem& item) { item.divisor = NAN; }), HasSubstr("divisor"));
  EXPECT_EQ(with([](ReductionItem& item) { item.dtype = Dtype::int32, item.divisor = 2; }),
            "reduction of 1 elements of int32 from 1 buffers into 1: a mean of integers is not an integer; cast to a "
            "floating-point dtype, or take the sum");
  input = nullptr;
  EXPECT_THAT(refusal_of(good), HasSubstr("a buffer is null"));
}

}  // namespace
}  // namespace tutti
