#include "tutti/data/graph/at_element.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

#include <chrono>
#include <stdexcept>

#include "tests/support/collected_warnings.h"
#include "tests/support/dataset_values.h"
#include "tests/support/watchdog.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

struct NotStandard {};
struct Mine : std::runtime_error {
  using runtime_error::runtime_error;
};

// What the function of map() throws at element 2, as it reaches the consumer.
template <class Exception>
std::string text_at_the_consumer(const Exception& thrown) {
  const auto dataset = range(5).map([&](const Tensor& x) {
    if (x.item<int64_t>() == 2) throw Exception(thrown);
    return x;
  });
  try {
    numbers(dataset.prefetch(1));
  } catch (const Exception& caught) {
    if (typeid(caught) != typeid(Exception)) return "another type";
    if constexpr (std::is_base_of_v<std::exception, Exception>) return caught.what();
    return "no text";
  }
  return "nothing";
}

TEST(AtElement, KeepsTheTypeAndNamesOperationAndElement) {
  EXPECT_EQ(text_at_the_consumer(std::runtime_error("why")), "map: element 2: why");
  EXPECT_EQ(text_at_the_consumer(std::domain_error("why")), "map: element 2: why");
  EXPECT_EQ(text_at_the_consumer(std::out_of_range("why")), "map: element 2: why");
  EXPECT_EQ(text_at_the_consumer(Error(ErrorCode::not_found, "why")), "map: element 2: why");
  EXPECT_THAT(text_at_the_consumer(c10::IndexError({__func__, __FILE__, __LINE__}, "why")),
              ::testing::AllOf(HasSubstr("why"), HasSubstr("map: element 2")));
}

TEST(AtElement, KeepsCodeAndLocationOfAnError) {
  const Error thrown(ErrorCode::data_loss, "why");
  try {
    graph::at_element("map", 0, [&] { throw thrown; });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::data_loss);
    EXPECT_EQ(error.location().line(), thrown.location().line());
  }
}

TEST(AtElement, OtherTypesPassUnchangedAndAWarningNamesThePlace) {
  const CollectedWarnings warnings;
  EXPECT_EQ(text_at_the_consumer(Mine("why")), "why");
  EXPECT_EQ(text_at_the_consumer(NotStandard()), "no text");
  ASSERT_EQ(warnings.lines().size(), 2U);
  EXPECT_THAT(warnings.lines()[0], ::testing::AllOf(HasSubstr("map: element 2: "), HasSubstr("why")));
  EXPECT_THAT(warnings.lines()[1], HasSubstr("map: element 2: "));
}

TEST(AtElement, IsNamedByEveryOperationWithAFunction) {
  const Watchdog watchdog(std::chrono::seconds(60));
  const auto three = [](const Tensor& x) {
    if (x.item<int64_t>() == 3) throw Error(ErrorCode::not_found, "three");
    return true;
  };
  const auto same = [three](const Tensor& x) { return three(x), x; };
  const auto dataset_of = [three](const Tensor& x) { return three(x), from_tensors(x); };
  const auto text = [](const Dataset<Tensor>& dataset) { return error_of([&] { numbers(dataset); }); };
  EXPECT_EQ(text(range(5).map(same)), "not_found: map: element 3: three");
  EXPECT_EQ(text(range(5).map(same, {.num_parallel_calls = 2})), "not_found: map: element 3: three");
  EXPECT_EQ(text(range(5).map(same, {.num_parallel_calls = 2}).batch(2).prefetch(1)),
            "not_found: map: element 3: three");
  EXPECT_EQ(text(range(5).filter(three)), "not_found: filter: element 3: three");
  EXPECT_EQ(text(range(5).take_while(three)), "not_found: take_while: element 3: three");
  EXPECT_EQ(text(range(5).flat_map(dataset_of)), "not_found: flat_map: element 3: three");
  EXPECT_EQ(text(range(5).interleave(dataset_of)), "not_found: interleave: element 3: three");
  const auto generator = [same] {
    return [same, n = 0]() mutable { return std::optional(same(at::scalar_tensor(n++, at::kLong))); };
  };
  EXPECT_EQ(text(from_generator(generator)), "not_found: from_generator: element 3: three");
}

TEST(AtElement, CountsElementsFromTheBeginOfAPass) {
  const auto failing = range(3).map([](const Tensor& x) {
    if (x.item<int64_t>() == 2) throw std::runtime_error("two");
    return x;
  });
  EXPECT_EQ(numbers(failing.ignore_errors().repeat(2)).size(), 4U);
  for (int pass = 0; pass < 2; ++pass) try {
      numbers(failing.skip(1));
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "map: element 2: two");
    }
}

}  // namespace
}  // namespace tutti::data
