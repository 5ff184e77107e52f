#include "tutti/data/parse_example.h"

#include <gmock/gmock.h>

#include "tests/support/dataset_values.h"

namespace tutti::data {
namespace {

using ::testing::HasSubstr;

using Shape = std::vector<int64_t>;

Strings batch_of(const std::vector<Example>& examples) {
  std::vector<std::string> records;
  for (const Example& example : examples) records.push_back(example.serialize());
  return Strings(std::move(records));
}

const Strings kBatch =
    batch_of({{{{"x", FloatList{1, 2}}, {"label", Int64List{7}}, {"tags", BytesList{"a", "b", "c"}}}},
              {{{"x", FloatList{3, 4}}, {"label", Int64List{8}}, {"ids", Int64List{5}}}}});

TEST(ParseExample, GivesFeaturesOfFixedLengthRowByRow) {
  const auto [x, label] = parse_example(kBatch, FixedLenFeature<float>{"x", {2, 1}}, FixedLenFeature<int64_t>{"label"});
  EXPECT_EQ(x.sizes(), (Shape{2, 2, 1}));
  EXPECT_EQ(numbers(x), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(label.scalar_type(), at::kLong);
  EXPECT_EQ(label.sizes(), (Shape{2}));
  EXPECT_EQ(numbers(label), (std::vector<double>{7, 8}));
}

TEST(ParseExample, PutsADefaultWhereAFeatureIsMissing) {
  const auto [ids, words, pairs] =
      parse_example(kBatch, FixedLenFeature<int64_t>{"ids", {1}, {-1}},
                    FixedLenFeature<std::string>{"absent", {2}, {"both"}}, FixedLenFeature<float>{"none", {2}, {5, 6}});
  EXPECT_EQ(numbers(ids), (std::vector<double>{-1, 5}));
  EXPECT_EQ(words, Strings({"both", "both", "both", "both"}, {2, 2}));
  EXPECT_EQ(numbers(pairs), (std::vector<double>{5, 6, 5, 6}));
}

TEST(ParseExample, PadsFeaturesOfVariableLength) {
  const auto [tags, ids] =
      parse_example(kBatch, VarLenFeature<std::string>{"tags", "-"}, VarLenFeature<int64_t>{"ids", -1});
  EXPECT_EQ(tags.values, Strings({"a", "b", "c", "-", "-", "-"}, {2, 3}));
  EXPECT_EQ(numbers(tags.lengths), (std::vector<double>{3, 0}));
  EXPECT_EQ(ids.values.sizes(), (Shape{2, 1}));
  EXPECT_EQ(numbers(ids.values), (std::vector<double>{-1, 5}));
}

TEST(ParseExample, OfNoRecordsKeepsItsShapes) {
  const auto [x, ids] = parse_example(Strings(std::vector<std::string>()), FixedLenFeature<float>{"x", {2}},
                                      VarLenFeature<int64_t>{"ids"});
  EXPECT_EQ(x.sizes(), (Shape{0, 2}));
  EXPECT_EQ(ids.values.sizes(), (Shape{0, 0}));
  EXPECT_EQ(ids.lengths.sizes(), (Shape{0}));
}

TEST(ParseExample, IsWhatADatasetMapsWith) {
  const auto records = from_tensor_slices(kBatch);
  for (const auto& [tags, label] : records.batch(2).map([](const Strings& batch) {
         return parse_example(batch, VarLenFeature<std::string>{"tags"}, FixedLenFeature<int64_t>{"label"});
       }))
    EXPECT_EQ(numbers(label), (std::vector<double>{7, 8}));
  const auto labels = records.map(
      [](const Strings& record) { return parse_single_example(record, FixedLenFeature<int64_t>{"label"}); });
  EXPECT_EQ(numbers(labels), (Numbers{{7}, {8}}));
}

TEST(ParseSingleExample, HasNoAxisOfABatch) {
  const auto [x, tags] =
      parse_single_example(kBatch.row(0), FixedLenFeature<float>{"x", {2}}, VarLenFeature<std::string>{"tags"});
  EXPECT_EQ(x.sizes(), (Shape{2}));
  EXPECT_EQ(tags, Strings({"a", "b", "c"}, {3}));
  EXPECT_EQ(parse_single_example(kBatch.row(1), VarLenFeature<std::string>{"tags"}).size(), 0);
}

TEST(ParseExample, SaysWhichFeatureOfWhichRecordIsWrong) {
  const auto error = [](const auto& feature) { return error_of([&] { parse_example(kBatch, feature); }); };
  EXPECT_THAT(error(FixedLenFeature<int64_t>{"ids", {1}}),
              HasSubstr("invalid_argument: parse_example: feature 'ids' of record 0 is required and not there"));
  EXPECT_THAT(error(FixedLenFeature<float>{"x", {3}}), HasSubstr("record 0 has 2 values, of which shape [3] takes 3"));
  EXPECT_THAT(error(FixedLenFeature<float>{"label"}), HasSubstr("'label' of record 0 is of another type than float"));
  EXPECT_THAT(error(VarLenFeature<int64_t>{"tags"}), HasSubstr("'tags' of record 0 is of another type than int64"));
  EXPECT_THAT(error(FixedLenFeature<float>{"x", {2}, {1, 2, 3}}), HasSubstr("3 default values"));
  EXPECT_THAT(error(FixedLenFeature<float>{"x", {-1}}), HasSubstr("sizes are 0 or more"));
}

TEST(ParseExample, RefusesWhatIsNoExampleAndNoBatch) {
  const Strings bad(std::vector<std::string>{kBatch[0], "\xff"});
  EXPECT_THAT(error_of([&] { parse_example(bad, FixedLenFeature<int64_t>{"label"}); }),
              HasSubstr("record 1, of 1 bytes, is no Example"));
  EXPECT_EQ(code_of([&] { parse_example(kBatch.row(0), FixedLenFeature<int64_t>{"label"}); }),
            ErrorCode::invalid_argument);
  EXPECT_EQ(code_of([&] { parse_single_example(kBatch, FixedLenFeature<int64_t>{"label"}); }),
            ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tutti::data
