// Saved models of columns of categories.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <random>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tutti/estimator/dnn.h"
#include "tutti/estimator/dnn_linear_combined.h"
#include "tutti/estimator/linear.h"
#include "tutti/estimator/log.h"
#include "tutti/estimator/model_call.h"
#include "tutti/export/parse_example.h"
#include "tutti/export/saved_model.h"
#include "tutti/feature_column/categorical_column.h"
#include "tutti/feature_column/crossed_column.h"
#include "tutti/feature_column/dense_features.h"
#include "tutti/feature_column/embedding_column.h"
#include "tutti/feature_column/make_parse_example_spec.h"
#include "tutti/feature_column/numeric_column.h"
#include "tutti/feature_column/sequence_column.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::estimator {
namespace {

namespace fc = feature_column;
using ::testing::HasSubstr;

class ExportOfCategories : public ::testing::Test {
 protected:
  ExportOfCategories() : outer_(set_log_sink([](const std::string&) {})) {}
  ~ExportOfCategories() override { set_log_sink(outer_); }

  LogSink outer_;
  TemporaryFolder folder_;
};

data::Example person(float age, const std::vector<std::string>& schools, const std::vector<std::string>& jobs,
                     const std::vector<int64_t>& levels, const std::vector<std::string>& pets) {
  const std::vector<float> weights(pets.size(), 0.5F + age / 100);
  return {{{"age", data::FloatList{age}},
           {"school", data::BytesList(schools)},
           {"job", data::BytesList(jobs)},
           {"level", data::Int64List(levels)},
           {"pet", data::BytesList(pets)},
           {"fondness", data::FloatList(weights)}}};
}

// Known and unknown values, none, many, and bytes that are no text.
Strings people() {
  const std::vector<data::Example> examples{
      person(20, {"none"}, {"sales"}, {1}, {"cat"}),
      person(35, {"college", "school"}, {"craft", "care"}, {3, 0}, {"dog", "cat"}),
      person(70, {"unheard of"}, {""}, {99}, {"yak"}),
      person(-3, {}, {}, {}, {}),
      person(90, {"", "none", "none"}, {"\xff\xfe", "sales"}, {-1, -7}, {"emu"}),
      data::Example()};
  std::vector<std::string> records;
  for (const data::Example& example : examples) records.push_back(example.serialize());
  return Strings(std::move(records));
}

struct WideAndDeep {
  std::vector<fc::FeatureColumn> wide, deep;
};

WideAndDeep columns_of_people(const std::filesystem::path& vocabulary_file) {
  std::ofstream(vocabulary_file) << "cat\ndog\nemu\n";
  const auto age = fc::numeric_column("age", {.default_value = {40}});
  const auto decade = fc::bucketized_column(age, {20, 40, 60});
  const auto school = fc::categorical_column_with_vocabulary_list("school", {"none", "school", "college"});
  const auto level = fc::categorical_column_with_identity("level", {.num_buckets = 4, .default_value = 2});
  const auto job = fc::categorical_column_with_hash_bucket("job", {.hash_bucket_size = 10});
  const auto pet = fc::categorical_column_with_vocabulary_file("pet", vocabulary_file, {.num_oov_buckets = 2});
  const auto fond = fc::weighted_categorical_column(pet, {.weight_feature_key = "fondness"});
  const auto both = fc::crossed_column({"school", "job"}, {.hash_bucket_size = 20});
  const auto three = fc::crossed_column({decade, level, "school"}, {.hash_bucket_size = 30, .hash_key = ~uint64_t{0}});
  return {.wide = {age, decade, school, level, job, fond, both, three},
          .deep = {age, fc::indicator_column(school), fc::indicator_column(fond), fc::indicator_column(three),
                   fc::embedding_column(job, {.dimension = 3}),
                   fc::embedding_column(fond, {.dimension = 2, .combiner = fc::Combiner::sqrtn, .max_norm = 0.5}),
                   fc::shared_embeddings({level}, {.dimension = 2})[0]}};
}

InputFn training_input(const data::ParseSpec& spec) {
  return [spec] {
    return data::from_tensor_slices(people(), at::arange(6).remainder(2))
        .repeat(4)
        .batch(6)
        .map([spec](const Strings& records, const Tensor& label) {
          return std::tuple(data::parse_example(records, spec), label);
        });
  };
}

data::Columns predicted(const Estimator& estimator, const data::Columns& features, int64_t count) {
  const auto predictions = estimator.predict([&] { return data::from_tensor_slices(features).batch(count); },
                                             {.yield_single_examples = false});
  return *predictions.begin();
}

void expect_same_bits(const saved_model::Outputs& served, const data::Columns& expected) {
  for (const auto& [name, value] : served)
    if (value.is_text())
      EXPECT_EQ(value.text(), expected.strings.at(name)) << name;
    else
      EXPECT_TRUE(at::equal(value.tensor(), expected.numbers.at(name))) << name;
}

TEST_F(ExportOfCategories, AnswersExamplesWithTheBitsOfPredict) {
  const WideAndDeep columns = columns_of_people(folder_ / "pets.txt");
  std::vector<fc::FeatureColumn> all = columns.wide;
  all.insert(all.end(), columns.deep.begin(), columns.deep.end());
  const data::ParseSpec spec = fc::make_parse_example_spec(all);
  const auto check = [&](const Estimator& estimator) {
    estimator.train(training_input(spec));
    const auto model = saved_model::load(
        estimator.export_saved_model(folder_ / "export", build_parsing_serving_input_receiver_fn(spec)));
    for (const int64_t count : {6, 1, 3}) {
      const Strings records = people().rows(6 - count, count);
      const saved_model::Outputs served = model.signature("predict")(records);
      EXPECT_TRUE(served.contains("probabilities") && served.contains("classes"));
      expect_same_bits(served, predicted(estimator, data::parse_example(records, spec), count));
      EXPECT_EQ(model.signature("serving_default")(records).at("scores").tensor().size(0), count);
    }
  };
  check(DNNLinearCombinedClassifier({.model_dir = folder_ / "combined",
                                     .linear_feature_columns = columns.wide,
                                     .dnn_feature_columns = columns.deep,
                                     .dnn_hidden_units = {4}}));
  check(LinearClassifier(
      {.feature_columns = columns.wide, .model_dir = folder_ / "linear", .sparse_combiner = fc::Combiner::mean}));
}

TEST_F(ExportOfCategories, AnswersFeaturesOfAnyLength) {
  const WideAndDeep columns = columns_of_people(folder_ / "pets.txt");
  const DNNClassifier estimator({.hidden_units = {4}, .feature_columns = columns.deep, .model_dir = folder_ / "model"});
  const data::ParseSpec spec = fc::make_parse_example_spec(columns.deep);
  estimator.train(training_input(spec));
  using saved_model::TensorSpec;
  using saved_model::TextSpec;
  const std::vector<int64_t> any{kUnknown, kUnknown};
  const auto receiver = build_raw_serving_input_receiver_fn(std::vector<saved_model::Spec>{
      TensorSpec{.name = "age"}, TextSpec{.name = "school", .shape = any}, TextSpec{.name = "job"},
      TensorSpec{.name = "level", .shape = any, .dtype = at::kLong}, TextSpec{.name = "pet", .shape = any},
      TensorSpec{.name = "fondness", .shape = any}});
  const auto model = saved_model::load(estimator.export_saved_model(folder_ / "export", receiver));
  const saved_model::Inputs request{{"age", at::tensor({20.0F, 50.0F})},
                                    {"school", Strings({"none", "", "college", "?", "?", "none"}, {2, 3})},
                                    {"job", Strings({"care", ""}, {2})},
                                    {"level", at::tensor({int64_t{3}, int64_t{-1}}).view({2, 1})},
                                    {"pet", Strings({"emu", "dog", "yak", ""}, {2, 2})},
                                    {"fondness", at::rand({2, 2})}};
  data::Columns features;
  for (const auto& [name, value] : request)
    features.set(name, value.is_text() ? data::Column(value.text()) : data::Column(value.tensor()));
  expect_same_bits(model.signature("predict")(request), predicted(estimator, features, 2));
  saved_model::Inputs short_of_weights = request;
  short_of_weights["fondness"] = at::rand({2, 1});
  EXPECT_THROW(model.signature("predict")(short_of_weights), std::exception);
}

// Random columns on random examples.
class RandomColumns {
 public:
  explicit RandomColumns(uint32_t seed) : random_(seed) {}

  std::vector<fc::FeatureColumn> columns() {
    std::vector<fc::FeatureColumn> made;
    for (size_t count = 1 + below(5); made.size() < count;) {
      const fc::FeatureColumn column = dense();
      if (std::ranges::none_of(made, [&](const auto& other) { return other.name() == column.name(); }))
        made.push_back(column);
    }
    return made;
  }
  Strings examples(int64_t count) {
    std::vector<std::string> records;
    for (int64_t i = 0; i < count; ++i) {
      data::Example example;
      for (const char* const key : {"s", "t"}) example.features[key] = values<std::string>([&] { return word(); });
      for (const char* const key : {"i", "j"})
        example.features[key] = values<int64_t>([&] { return static_cast<int64_t>(below(9)) - 3; });
      const size_t pairs = below(4);  // each with a weight
      example.features["w"] = repeated<std::string>(pairs, [&] { return std::string(kWords[below(3)]); });
      example.features["x"] = repeated<float>(pairs, [&] { return 0.37F * static_cast<float>(below(9)) - 1; });
      example.features["n"] = data::FloatList{0.7F * static_cast<float>(below(20)) - 5};
      if (below(6) == 0) example.features.clear();
      records.push_back(example.serialize());
    }
    return Strings(std::move(records));
  }

 private:
  static constexpr std::array<const char*, 6> kWords = {"one", "two", "three", "four", "", "\xf0\x28"};

  size_t below(size_t n) { return random_() % n; }
  std::string word() { return kWords[below(kWords.size())]; }
  template <class T, class F>
  std::vector<T> repeated(size_t count, const F& value) {
    std::vector<T> made;
    while (made.size() < count) made.push_back(value());
    return made;
  }
  template <class T, class F>
  std::vector<T> values(const F& value) {
    return repeated<T>(below(4), value);
  }

  fc::FeatureColumn words(const char* key) {
    if (below(2))
      return fc::categorical_column_with_vocabulary_list(key, {"one", "two", "three"}, {.num_oov_buckets = 2});
    return fc::categorical_column_with_vocabulary_list(key, {"one", "two", "three"},
                                                       {.default_value = static_cast<int64_t>(below(4)) - 1});
  }
  fc::FeatureColumn numbers(const char* key) {
    if (below(2)) return fc::categorical_column_with_identity(key, {.num_buckets = 5, .default_value = 1});
    return fc::categorical_column_with_vocabulary_list(key, {int64_t{-2}, int64_t{0}, int64_t{3}});
  }
  fc::FeatureColumn categories() {
    const auto decade = fc::bucketized_column(fc::numeric_column("n", {.default_value = {0}}), {-1, 2, 5});
    switch (below(7)) {
      case 0: return words("s");
      case 1: return numbers("i");
      case 2: return fc::categorical_column_with_hash_bucket("t", {.hash_bucket_size = 7});
      case 3: return fc::categorical_column_with_hash_bucket("j", {.hash_bucket_size = 7, .dtype = fc::KeyType::int64});
      case 4: return fc::crossed_column({words("s"), "t"}, {.hash_bucket_size = 11});
      case 5: return fc::crossed_column({decade, numbers("i"), "s"}, {.hash_bucket_size = 13, .hash_key = random_()});
      default:
        return fc::weighted_categorical_column(
            fc::categorical_column_with_vocabulary_list("w", {"one", "two", "three"}), {.weight_feature_key = "x"});
    }
  }
  fc::FeatureColumn dense() {
    if (below(3) == 0) return fc::indicator_column(categories());
    fc::EmbeddingColumnOptions options{.dimension = 3, .combiner = static_cast<fc::Combiner>(below(3))};
    if (below(2)) options.max_norm = 0.4;
    return fc::embedding_column(categories(), options);
  }

  std::mt19937 random_;
};

TEST_F(ExportOfCategories, AnswersAnyColumnsWithTheirBits) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    RandomColumns random(seed);
    const std::vector<fc::FeatureColumn> columns = random.columns();
    const keras::layers::DenseFeatures layer(columns);
    const data::ParseSpec spec = fc::make_parse_example_spec(columns);
    layer(data::parse_example(random.examples(2), spec));  // makes its tables
    const auto f = [&](const Strings& records) {
      return saved_model::Outputs{{"y", layer(saved_model::parse_example(records, spec))}};
    };
    const auto folder = folder_ / std::to_string(seed);
    saved_model::save(folder, {.signatures = {{"f", saved_model::Signature(f, {.inputs = {saved_model::TextSpec{}}})}},
                               .torchscript = false});
    const auto served = saved_model::load(folder).signature("f");
    for (const int64_t count : {1, 4, 9}) {
      const Strings records = random.examples(count);
      EXPECT_TRUE(at::equal(served(records).at("y").tensor(), layer(data::parse_example(records, spec)))) << seed;
    }
  }
}

TEST_F(ExportOfCategories, RefusesInTheNameOfTheColumn) {
  const auto level = fc::categorical_column_with_identity("level", {.num_buckets = 3});
  const LinearRegressor estimator({.feature_columns = {level}, .model_dir = folder_ / "model"});
  const data::ParseSpec spec = fc::make_parse_example_spec({level});
  estimator.train([] {
    return data::from_tensor_slices(data::Columns{{"level", at::arange(3)}}, at::rand({3, 1})).batch(3);
  });
  const auto model = saved_model::load(
      estimator.export_saved_model(folder_ / "export", build_parsing_serving_input_receiver_fn(spec)));
  const auto answer = [&](std::vector<int64_t> levels) {
    const data::Example example{{{"level", data::Int64List(std::move(levels))}}};
    return model.signature("predict")(Strings(std::vector{example.serialize()})).at("predictions").tensor();
  };
  EXPECT_EQ(answer({}).numel(), 1);
  EXPECT_THAT(error_of([&] { answer({1, 3}); }), HasSubstr("feature column 'level': category 3 is not one of [0, 3)"));
  const auto numbers =
      build_raw_serving_input_receiver_fn(std::vector<saved_model::Spec>{saved_model::TextSpec{.name = "level"}});
  EXPECT_THAT(error_of([&] { estimator.export_saved_model(folder_ / "export", numbers); }),
              HasSubstr("feature column 'level': the feature 'level' is text, and the column is of integers"));
}

// Sequences of words, each with a kind and a place, which has two numbers.
struct Words {
  fc::FeatureColumn word = fc::embedding_column(
      fc::sequence_categorical_column_with_hash_bucket("word", {.hash_bucket_size = 9}), {.dimension = 3});
  fc::FeatureColumn kind =
      fc::indicator_column(fc::sequence_categorical_column_with_vocabulary_list("kind", {"noun", "verb"}));
  fc::FeatureColumn place = fc::sequence_numeric_column("place", {.shape = {2}, .default_value = -1});
  std::vector<fc::FeatureColumn> columns{word, kind, place};
  data::ParseSpec spec = fc::make_parse_example_spec(columns);

  static std::string of(const std::vector<std::string>& kinds) {
    std::vector<std::string> words;
    std::vector<float> places;
    for (size_t i = 0; i < kinds.size(); ++i) {
      words.push_back("word" + std::to_string(3 * i));
      places.insert(places.end(), {0.5F + static_cast<float>(i), static_cast<float>(kinds[i].size())});
    }
    return data::Example{
        {{"word", data::BytesList(words)}, {"kind", data::BytesList(kinds)}, {"place", data::FloatList(places)}}}
        .serialize();
  }
  static Strings sentences() {
    return Strings(
        std::vector{of({"noun", "verb", "noun"}), of({}), of({"verb"}), of({"noun", "noun", "noun", "verb"})});
  }

  EstimatorSpec operator()(const data::Columns& features, const Tensor& labels, ModeKeys mode) const {
    const auto [steps, lengths] = keras::layers::SequenceFeatures(columns)(features);
    const Tensor y = keras::layers::Dense({.units = 1})(steps.sum(1));
    if (mode == ModeKeys::predict)
      return EstimatorSpec({.mode = mode, .predictions = {{"y", y}, {"steps", steps}, {"lengths", lengths}}});
    const Tensor loss = (y.squeeze(1) - labels).square().mean();
    return EstimatorSpec(
        {.mode = mode, .loss = loss, .train_op = keras::optimizers::SGD().minimize(loss, get_global_step())});
  }
};

TEST_F(ExportOfCategories, AnswersSequencesWithTheBitsOfPredict) {
  const Words words;
  const Estimator estimator(words, {.model_dir = folder_ / "model"});
  estimator.train([&] {
    return data::from_tensor_slices(Words::sentences(), at::rand({4}))
        .batch(4)
        .map([&](const Strings& records, const Tensor& label) {
          return std::tuple(data::parse_example(records, words.spec), label);
        });
  });
  const auto model = saved_model::load(
      estimator.export_saved_model(folder_ / "export", build_parsing_serving_input_receiver_fn(words.spec)));
  for (int64_t first = 0; first < 4; ++first)
    for (int64_t count = 1; first + count <= 4; ++count) {
      const Strings records = Words::sentences().rows(first, count);
      const saved_model::Outputs served = model.signature("serving_default")(records);
      EXPECT_EQ(served.size(), 3);
      expect_same_bits(served, predicted(estimator, data::parse_example(records, words.spec), count));
    }
}

TEST_F(ExportOfCategories, RefusesSequencesOfOtherLengths) {
  const Words words;
  const Estimator estimator(words, {.model_dir = folder_ / "model"});
  const auto one = [&](const std::string& record) {
    return data::parse_example(Strings(std::vector{record}), words.spec);
  };
  estimator.train([&] { return data::from_tensor_slices(one(Words::of({"noun"})), at::rand({1})).batch(1); });
  const auto model = saved_model::load(
      estimator.export_saved_model(folder_ / "export", build_parsing_serving_input_receiver_fn(words.spec)));
  for (const size_t kinds : {0, 1, 3}) {
    const std::string record = data::Example{{{"word", data::BytesList{"a", "b"}},
                                              {"kind", data::BytesList(kinds, "noun")},
                                              {"place", data::FloatList{1, 2, 3, 4}}}}
                                   .serialize();
    EXPECT_THAT(error_of([&] { predicted(estimator, one(record), 1); }),
                HasSubstr("its sequences have other lengths than those of"));
    EXPECT_THROW(model.signature("serving_default")(Strings(std::vector{record})), std::exception) << kinds;
  }
}

}  // namespace
}  // namespace tutti::estimator
