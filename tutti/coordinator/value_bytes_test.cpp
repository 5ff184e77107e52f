#include "tutti/coordinator/value_bytes.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/support/error_of.h"
#include "tutti/coordinator/remote_call.h"

namespace tutti::coordinator {
namespace {

enum class Colour { red, green };

struct Sample {
  Tensor image;
  std::map<std::string, std::vector<int32_t>> boxes;
  Colour colour = Colour::red;
  Strings names;
  std::pair<double, bool> score;
};

template <class T>
T come_back(const T& value) {
  ByteWriter writer;
  write_value<T>(writer, value);
  ByteReader reader(writer.bytes(), "a value");
  T read = read_value<T>(reader);
  reader.finish();
  return read;
}

Sample sample() {
  return {.image = at::arange(6, at::kHalf).view({2, 3}),
          .boxes = {{"b", {3, -4}}, {"a", {}}},
          .colour = Colour::green,
          .names = Strings({"x", "", "zé"}, {3, 1}),
          .score = {0.1, true}};
}

TEST(ValueBytes, AStructureComesAsItIs) {
  const Sample read = come_back(sample());
  EXPECT_TRUE(at::equal(read.image, sample().image));
  EXPECT_EQ(read.image.scalar_type(), at::kHalf);
  EXPECT_EQ(read.boxes, sample().boxes);
  EXPECT_EQ(read.colour, Colour::green);
  EXPECT_EQ(read.names, sample().names);
  EXPECT_EQ(read.score, sample().score);
  EXPECT_FALSE(come_back(Tensor()).defined());
  EXPECT_EQ(come_back(std::numeric_limits<uint64_t>::max()), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(come_back(std::vector<std::string>{"a", ""}), (std::vector<std::string>{"a", ""}));
}

TEST(ValueBytes, WhatCannotTravelIsKnownWhenItIsCompiled) {
  static_assert(can_travel<void> && can_travel<Sample> && can_travel<std::array<int, 3>>);
  static_assert(!can_travel<std::shared_ptr<int>> && !can_travel<std::vector<std::unique_ptr<int>>>);
  static_assert(!can_travel<int&> && !can_travel<std::function<void()>>);
}

TEST(ValueBytes, DamagedBytesAreRefused) {
  ByteWriter writer;
  write_value<Sample>(writer, sample());
  const auto& bytes = writer.bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ByteReader reader({bytes.data(), size}, "a value");
    EXPECT_EQ(code_of([&] { read_value<Sample>(reader); }), ErrorCode::data_loss) << size;
  }
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {  // anything may come of it but a crash, or memory that its bytes do not fill
    auto changed = bytes;
    for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<uint8_t>(random());
    ByteReader reader(changed, "a value");
    try {
      read_value<Sample>(reader);
    } catch (const std::exception&) {
    }
  }
}

TEST(ValueBytes, ANumberOfAnotherTypeIsRefused) {
  ByteWriter writer;
  writer.number(300);
  ByteReader reader(writer.bytes(), "a value");
  EXPECT_EQ(code_of([&] { read_value<uint8_t>(reader); }), ErrorCode::data_loss);
}

TEST(NamedCall, TakesArgumentsAndPerWorkerValuesAsBytes) {
  using F = double(int64_t&, const std::string&, std::vector<double>);
  const auto function = std::make_shared<const std::function<F>>(
      [](int64_t& own, const std::string& text, const std::vector<double>& numbers) {
        return static_cast<double>(++own) + static_cast<double>(text.size()) + numbers.at(0);
      });
  const auto values = std::make_shared<PerWorkerTable>();
  const PerWorker<int64_t> own(values, 2, [](int worker) { return 10 * worker; });
  ByteWriter arguments;
  write_argument<int64_t&>(arguments, own);
  write_argument<const std::string&>(arguments, "abc");
  write_argument<std::vector<double>>(arguments, std::vector<double>{0.5});
  const NamedCall call = named_call(function);
  for (const double expected : {14.5, 15.5}) {
    ByteReader reader(arguments.bytes(), "arguments");
    const auto result = call(reader, *values, 1);
    ByteReader results(result.bytes(), "a result");
    EXPECT_EQ(read_value<double>(results), expected);
  }
}

TEST(NamedCall, ArgumentsThatAreNoneAreRefused) {
  const auto function = std::make_shared<const std::function<void(int64_t&)>>([](int64_t&) {});
  const NamedCall call = named_call(function);
  PerWorkerTable values;
  values.add(typeid(double), [](int) -> void* { return nullptr; });
  values.add(typeid(int64_t), [](int) -> void* { return nullptr; });
  const auto code = [&](std::vector<int64_t> numbers) {
    ByteWriter writer;
    for (const int64_t number : numbers) writer.number(number);
    ByteReader reader(writer.bytes(), "arguments");
    return code_of([&] { call(reader, values, 0); });
  };
  EXPECT_EQ(code({}), ErrorCode::data_loss);
  EXPECT_EQ(code({0, 7}), ErrorCode::data_loss);  // a value where a reference is taken
  EXPECT_EQ(code({2, 0}), ErrorCode::data_loss);
  EXPECT_EQ(code({1, 0}), ErrorCode::data_loss);            // of another type
  EXPECT_EQ(code({1, 1}), ErrorCode::failed_precondition);  // let go
  EXPECT_EQ(code({1, 9}), ErrorCode::failed_precondition);
  EXPECT_EQ(code({1, -1}), ErrorCode::failed_precondition);
}

}  // namespace
}  // namespace tutti::coordinator
