#include "tutti/export/parse_example.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/export/description.h"
#include "tutti/export/saved_model.h"
#include "tutti/export/steps.h"
#include "tutti/keras/layers/preprocessing/category_ids.h"
#include "tutti/keras/layers/preprocessing/string_lookup.h"

namespace tutti::saved_model {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const data::ParseSpec kSpec{{"x", data::FixedLenFeature<float>{"x", {2}}},
                            {"n", data::FixedLenFeature<int64_t>{"n", {}, {7}}},
                            {"city", data::VarLenFeature<std::string>{"city"}}};

Outputs answer(const Strings& examples) {
  const data::Columns columns = saved_model::parse_example(examples, kSpec);
  const keras::layers::StringLookup lookup({.vocabulary = {{"Bonn", "Ulm"}}});
  const Tensor x = columns.at("x").tensor().sum(1) + columns.at("n").tensor();
  return {{"sum", x}, {"ids", lookup(columns.at("city").strings())}, {"lengths", columns.lengths.at("city")}};
}

Strings some_examples() {
  const data::Example one{{{"x", data::FloatList{1, 2}}, {"n", data::Int64List{3}}, {"city", data::BytesList{"Ulm"}}}};
  const data::Example two{{{"x", data::FloatList{0.5F, -2}}, {"city", data::BytesList{"Köln", "Bonn", "Ulm"}}}};
  const data::Example three{{{"x", data::FloatList{0, 0}}, {"unknown", data::FloatList{1}}}};
  return Strings({one.serialize(), two.serialize(), three.serialize()}, {3});
}

TEST(ParseExampleStep, ReadsInALoadedModelWhatItReadsHere) {
  const TemporaryFolder folder;
  save(folder / "model",
       {.signatures = {{"f", Signature(answer, {.inputs = {TextSpec({.name = "examples"})}})}}, .torchscript = false});
  const auto f = load(folder / "model").signature("f");
  const Outputs found = f(some_examples()), expected = answer(some_examples());
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) EXPECT_TRUE(at::equal(found.at(name).tensor(), value.tensor())) << name;
  EXPECT_TRUE(at::equal(found.at("sum").tensor(), at::tensor({6.0F, 5.5F, 7.0F})));
  EXPECT_TRUE(at::equal(found.at("lengths").tensor(), at::tensor({int64_t{1}, int64_t{3}, int64_t{0}})));
  EXPECT_THAT(error_of([&] { f(Strings(std::vector<std::string>{"no Example"})); }), HasSubstr("is no Example"));
  EXPECT_THAT(error_of([&] { f(Strings(std::vector{data::Example().serialize()})); }), HasSubstr("'x' of record 0"));
}

TEST(ParseExampleStep, IsWrittenAndReadOfEveryKind) {
  Assets assets;
  const std::vector<data::FeatureSpec> features{data::FixedLenFeature<float>{"a", {2, 1}, {0.5F, -1.0F}},
                                                data::FixedLenFeature<int64_t>{"a", {}, {}},
                                                data::FixedLenFeature<std::string>{"a", {3}, {"ü\n\""}},
                                                data::VarLenFeature<float>{"a", 2.5F},
                                                data::VarLenFeature<int64_t>{"a", -1},
                                                data::VarLenFeature<std::string>{"a", ""}};
  for (const data::FeatureSpec& feature : features) {
    const keras::layers::ParseFeatureOptions options{.key = "a", .feature = feature};
    const auto read = parse_step("parse_example", 1, step_config(options, assets), {}, "test");
    EXPECT_EQ(std::get<keras::layers::ParseFeatureOptions>(read).key, "a");
    EXPECT_EQ(std::get<keras::layers::ParseFeatureOptions>(read).feature, feature) << to_string(feature);
  }
  const keras::layers::ParseFeatureOptions bytes{.key = "a", .feature = data::VarLenFeature<std::string>{"a", "\xff"}};
  EXPECT_THAT(error_of([&] { step_config(bytes, assets); }), HasSubstr("not UTF-8"));
}

TEST(ParseExampleStep, RefusesADamagedDescription) {
  const auto error = [](const char* config) {
    return error_of([&] { parse_step("parse_example", 1, config, {}, "test"); });
  };
  for (const char* const config :
       {R"({"feature": "x", "type": "float32"})", R"({"feature": "x", "type": "float32", "shape": [1], "variable": 1})",
        R"({"feature": "x", "type": "float32", "shape": [-1]})",
        R"({"feature": "x", "type": "float32", "shape": [4294967296, 4294967296]})",
        R"({"feature": "x", "type": "float32", "shape": [1000000000000]})",
        R"({"feature": "x", "type": "float32", "shape": [3], "floats": [1.0, 2.0]})",
        R"({"feature": "x", "type": "int64", "shape": [], "floats": [1.0]})",
        R"({"feature": "x", "type": "text", "variable": 1})",
        R"({"feature": "x", "type": "text", "shape": [1], "lengths": 1})", R"({"feature": "x", "key": 1})", "{"})
    EXPECT_THAT(error(config), StartsWith("data_loss")) << config;
  EXPECT_THAT(error(R"({"feature": "x", "type": "int8", "shape": []})"), StartsWith("unimplemented"));
  EXPECT_THAT(error_of([] { parse_step("parse_example", 2, "{}", {}, "test"); }), StartsWith("unimplemented"));
}

TEST(IdsSteps, AreWrittenAndReadOfEveryKind) {
  using keras::layers::CategoryIdsOptions;
  using keras::layers::CrossedIdsOptions;
  Assets assets;
  const auto asset = [&](const std::string& file) { return assets.files().at(file); };
  const std::vector<std::string> words{"a", "ü"};
  const std::vector<CategoryIdsOptions> all{{.column = "c",
                                             .feature = "f",
                                             .kind = CategoryIdsOptions::Kind::vocabulary,
                                             .vocabulary = std::make_shared<const std::vector<std::string>>(words),
                                             .default_value = 1},
                                            {.column = "c",
                                             .feature = "f",
                                             .is_text = false,
                                             .kind = CategoryIdsOptions::Kind::identity,
                                             .num_buckets = 3,
                                             .refused_from = 3},
                                            {.column = "c", .feature = "f", .num_buckets = 7, .has_lengths = true}};
  for (const CategoryIdsOptions& options : all) {
    const std::string config = step_config(options, assets);
    const PreprocessingOptions read = parse_step("category_ids", 1, config, asset, "test");
    EXPECT_EQ(step_config(read, assets), config);
    EXPECT_EQ(num_inputs_of(read), options.has_lengths ? 2U : 1U);
  }
  const CrossedIdsOptions crossed{.column = "c",
                                  .hash_bucket_size = 5,
                                  .hash_key = ~uint64_t{0},
                                  .keys = {CrossedIdsOptions::Key::ids, CrossedIdsOptions::Key::feature_with_lengths}};
  const PreprocessingOptions read = parse_step("crossed_ids", 1, step_config(crossed, assets), asset, "test");
  EXPECT_EQ(std::get<CrossedIdsOptions>(read).hash_key, ~uint64_t{0});
  EXPECT_EQ(num_inputs_of(read), 3U);
}

TEST(IdsSteps, RefuseADamagedDescription) {
  const auto error = [](const char* name, const char* config) {
    return error_of([&] { (void)make_step(parse_step(name, 1, config, {}, "test")); });
  };
  for (const char* const config :
       {R"({"kind": "hash"})", R"({"kind": "hash", "num_buckets": -5})", R"({"kind": "vocabulary"})",
        R"({"kind": "identity", "num_buckets": 3, "is_text": 1})",
        R"({"kind": "identity", "num_buckets": 3, "is_text": 0, "default_value": 3})"})
    EXPECT_THAT(error("category_ids", config), StartsWith("invalid_argument")) << config;
  EXPECT_THAT(error("category_ids", R"({"kind": "other"})"), StartsWith("unimplemented"));
  EXPECT_THAT(error("category_ids", R"({"kind": "hash", "num_buckets": 1, "is_text": 2})"), StartsWith("data_loss"));
  EXPECT_THAT(error("crossed_ids", R"({"hash_bucket_size": 3, "keys": ["ids"]})"),
              HasSubstr("two or more are crossed"));
  EXPECT_THAT(error("crossed_ids", R"({"hash_bucket_size": 0, "keys": ["ids", "ids"]})"), HasSubstr("at least 1"));
}

TEST(IdsSteps, AreRefusedWithAnotherNumberOfInputs) {
  const TemporaryFolder folder;
  const auto f = [](const Strings& text) {
    keras::layers::CategoryIds ids({.column = "c", .feature = "f", .num_buckets = 7});
    return Outputs{{"ids", ids({text})}};
  };
  save(folder / "model",
       {.signatures = {{"f", Signature(f, {.inputs = {TextSpec({.name = "text"})}})}}, .torchscript = false});
  const auto path = folder / "model" / "saved_model.json";
  std::ifstream stream(path);
  std::string sealed((std::istreambuf_iterator<char>(stream)), {});
  Description description = parse_description(sealed, "test");
  Call::NamedArgument& argument = description.signatures[0].calls[0].arguments[0];
  argument = {"inputs", {.kind = Argument::Kind::values, .values = {0, 0}}};
  std::ofstream(path) << description_text(description);
  EXPECT_THAT(error_of([&] { (void)load(folder / "model"); }),
              HasSubstr("the step 'category_ids' gets 2 values, and takes 1"));
  argument.argument.values = {0, -1};
  std::ofstream(path) << description_text(description);
  EXPECT_THAT(error_of([&] { (void)load(folder / "model"); }), HasSubstr("does not make one value of others"));
}

TEST(ParseExampleStep, ReadsAsManyFeaturesOfAnyLengthAsThereAre) {
  const TemporaryFolder folder;
  data::ParseSpec spec;
  for (int i = 0; i < 40; ++i) {
    const std::string key = "f" + std::to_string(i);
    spec[key] = data::VarLenFeature<float>{key};
  }
  const auto sums = [&](const Strings& examples) {
    const data::Columns columns = saved_model::parse_example(examples, spec);
    Tensor sum;
    int64_t width = 0;
    for (const auto& [key, values] : columns.numbers) {
      sum = sum.defined() ? sum + values.sum(1) : values.sum(1);
      width = 2 * values.size(1);
    }
    return Outputs{{"sum", sum + width * columns.at("f3").tensor().size(1)}};
  };
  save(folder / "model", {.signatures = {{"f", Signature(sums, {.inputs = {TextSpec({.name = "examples"})}})}}});
  data::Example example;
  for (const auto& [key, feature] : spec) example.features[key] = data::FloatList{1, 0.5F};
  const Strings examples({example.serialize(), data::Example().serialize()}, {2});
  EXPECT_TRUE(at::equal(load(folder / "model").signature("f")(examples).at("sum"), at::tensor({68.0F, 8.0F})));
}

}  // namespace
}  // namespace tutti::saved_model
