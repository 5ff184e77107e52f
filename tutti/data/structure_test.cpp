#include "tutti/data/structure.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

Tensor scalar(double value) { return at::full({}, value, at::kDouble); }

struct Sample {
  Tensor image;
  std::pair<Tensor, Tensor> boxes;
  auto parts() { return std::tie(image, boxes); }
};

struct LabeledRow {  // as torch::data::Example<> is
  Tensor data;
  Tensor target;
};

template <class T>
std::vector<double> leaves(const graph::Element& element) {
  std::vector<double> all;
  for (const graph::Leaf& leaf : element.leaves()) all.push_back(std::get<Tensor>(leaf).item<double>());
  return all;
}

TEST(Structure, ReadsBackWhatItWrote) {
  using Nested = std::tuple<Tensor, std::map<std::string, std::pair<Tensor, Tensor>>, Sample>;
  const Nested nested{scalar(1),
                      {{"b", {scalar(4), scalar(5)}}, {"a", {scalar(2), scalar(3)}}},
                      Sample{scalar(6), {scalar(7), scalar(8)}}};
  const graph::Element element = to_element(nested);
  EXPECT_EQ(leaves<Nested>(element), (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}));
  const auto [first, named, sample] = from_element<Nested>(element);
  EXPECT_EQ(first.item<double>(), 1);
  EXPECT_EQ(named.at("b").second.item<double>(), 5);
  EXPECT_EQ(sample.boxes.first.item<double>(), 7);
}

TEST(Structure, ExamplesHaveDataAndTarget) {
  const auto dataset = from_tensor_slices(LabeledRow{at::arange(4), at::arange(4, 8)}).shuffle(4, {.seed = 0}).batch(2);
  for (const LabeledRow& batch : dataset) EXPECT_EQ(numbers(batch.data + 4), numbers(batch.target));
}

struct Image {
  Tensor pixels;
  Strings label;
};

TEST(Structure, PlainStructsAreElements) {
  const auto images = from_tensor_slices(Image{at::arange(4), Strings({"a", "b", "c", "d"}, {4})});
  static_assert(std::is_same_v<decltype(images), const Dataset<Image>>);
  const auto doubled = images.map([](const Image& image) { return Image{image.pixels * 2, image.label}; });
  std::vector<double> pixels;
  for (const Image& batch : doubled.filter([](const Image& image) { return image.label[0] != "b"; }).batch(3)) {
    pixels = numbers(batch.pixels);
    EXPECT_EQ(batch.label, Strings({"a", "c", "d"}, {3}));
  }
  EXPECT_EQ(pixels, (std::vector<double>{0, 4, 6}));
}

TEST(Structure, ElementsOfAnotherTypeAreRefused) {
  using Named = std::map<std::string, Tensor>;
  EXPECT_EQ(code_of([] { from_element<Tensor>(to_element(std::tuple(scalar(1), scalar(2)))); }),
            ErrorCode::failed_precondition);
  EXPECT_EQ(code_of([] { from_element<std::tuple<Tensor, Tensor>>(to_element(scalar(1))); }),
            ErrorCode::failed_precondition);
  EXPECT_EQ(code_of([] { from_element<Strings>(to_element(scalar(1))); }), ErrorCode::failed_precondition);
  EXPECT_EQ(code_of([] { from_element<Named>(to_element(scalar(1))); }), ErrorCode::failed_precondition);
  EXPECT_EQ(code_of([] { from_element<Tensor>(to_element(Named{{"x", scalar(1)}})); }), ErrorCode::failed_precondition);
}

TEST(Structure, NamesSurviveBatchingCachingAndZipping) {
  using Named = std::map<std::string, Tensor>;
  const auto named = range(5).map([](const Tensor& x) { return Named{{"x", x}, {"double", x * 2}}; });
  const auto dataset = zip(range(5), named.cache().batch(2).unbatch()).batch(5);
  for (int epoch = 0; epoch < 2; ++epoch)
    for (const auto& [index, batch] : dataset) EXPECT_EQ(numbers(batch.at("double")), numbers(index * 2));
}

TEST(Structure, DictionariesOfABatchHaveTheSameKeys) {
  const auto dataset = range(2).map([](const Tensor& x) {
    return std::map<std::string, Tensor>{{x.item<int64_t>() == 0 ? "even" : "odd", x}};
  });
  EXPECT_THAT(error_of([&] { *dataset.batch(2).begin(); }), HasSubstr("different keys"));
}

}  // namespace
}  // namespace tutti::data
