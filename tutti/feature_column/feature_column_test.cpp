#include "tutti/feature_column/feature_column.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tutti/data/strings_from.h"
#include "tutti/device/logical_devices.h"
#include "tutti/distribute/mirrored_strategy.h"
#include "tutti/feature_column/categorical_column.h"
#include "tutti/feature_column/crossed_column.h"
#include "tutti/feature_column/dense_features.h"
#include "tutti/feature_column/embedding_column.h"
#include "tutti/feature_column/linear_model.h"
#include "tutti/feature_column/make_parse_example_spec.h"
#include "tutti/feature_column/numeric_column.h"
#include "tutti/feature_column/sequence_column.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::feature_column {
namespace {

using data::Columns;
using keras::layers::DenseFeatures;
using keras::layers::SequenceFeatures;
using ::testing::HasSubstr;

const FeatureColumn kPets = categorical_column_with_vocabulary_list("pet", {"cat", "dog", "emu"});

Columns pets() { return {{"pet", Strings({"cat", "dog", "", "yak"}, {4, 1})}}; }

TEST(FeatureColumn, NamesItselfAndWhatThereIsWhereAFeatureIsMissing) {
  const Columns features{{"age", at::ones({2, 1})}, {"city", Strings({"a", "b"}, {2, 1})}};
  EXPECT_THAT(error_of([&] { DenseFeatures({numeric_column("height")})(features); }),
              HasSubstr("feature column 'height': reads the feature 'height', and the input has none of that name, but "
                        "[age, city]"));
  EXPECT_THAT(error_of([&] { DenseFeatures({indicator_column(kPets)})(features); }), HasSubstr("but [age, city]"));
}

TEST(FeatureColumn, RefusesWhatAColumnIsNot) {
  EXPECT_THAT(error_of([] { DenseFeatures({kPets}); }), HasSubstr("wrap it in indicator_column or embedding_column"));
  EXPECT_THAT(error_of([] { indicator_column(numeric_column("age")); }), HasSubstr("'age' is no column of categories"));
  EXPECT_THAT(error_of([] { bucketized_column(kPets, {1}); }), HasSubstr("is no numeric_column"));
  EXPECT_THAT(error_of([] { crossed_column({"a"}, {.hash_bucket_size = 3}); }), HasSubstr("two or more are crossed"));
  EXPECT_THAT(error_of([] {
                crossed_column({"a", categorical_column_with_hash_bucket("b", {.hash_bucket_size = 3})},
                               {.hash_bucket_size = 3});
              }),
              HasSubstr("'b' is hashed already"));
  EXPECT_THAT(error_of([] {
                DenseFeatures({numeric_column("x"), numeric_column("x")});
              }),
              HasSubstr("two feature columns are called 'x'"));
  EXPECT_THAT(error_of([] { categorical_column_with_vocabulary_list("w", {"a", "a"}); }), HasSubstr("'a' twice"));
}

TEST(FeatureColumn, RefusesFeaturesOfTheOtherKind) {
  const Columns numbers{{"pet", at::arange(4)}};
  EXPECT_THAT(error_of([&] { (void)kPets->sparse_ids(numbers); }), HasSubstr("is integers, and the column is of text"));
  const FeatureColumn ids = categorical_column_with_identity("pet", {.num_buckets = 3});
  EXPECT_THAT(error_of([&] { (void)ids->sparse_ids(pets()); }), HasSubstr("is text, and the column is of integers"));
  EXPECT_THAT(error_of([&] { LinearModel({ids})(numbers); }), HasSubstr("category 3 is not one of [0, 3)"));
}

TEST(BucketizedColumn, PutsANumberOnABoundaryIntoTheBucketAboveIt) {
  const std::vector<double> boundaries{0.1, 0.3, 0.6, 0.7, 0.9};
  const FeatureColumn column = bucketized_column(numeric_column("x"), boundaries);
  const Tensor numbers = at::tensor(boundaries, at::kFloat);
  for (const Tensor& x : {numbers, numbers.to(at::kDouble), at::tensor(boundaries, at::kDouble)})
    EXPECT_TRUE(at::equal(column->sparse_ids(Columns{{"x", x}}).ids, at::arange(1, 6))) << x;
  const Tensor below = at::tensor({0.1F, 0.7F}).nextafter(at::zeros({2}));
  EXPECT_TRUE(at::equal(column->sparse_ids(Columns{{"x", below}}).ids, at::tensor({int64_t{0}, int64_t{3}})));
}

TEST(NumericColumn, IsOfFloat32) {
  const DenseFeatures layer({numeric_column("x", {.normalizer_fn = [](const Tensor& x) { return x / 2; }})});
  EXPECT_EQ(layer(Columns{{"x", at::ones({2}, at::kDouble)}}).scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(layer(Columns{{"x", at::arange(2)}}), at::tensor({0.F, 0.5F}).view({2, 1})));
}

TEST(CrossedColumn, TakesFeaturesOfAnyLength) {
  Columns features{{"a", Strings({"u", "v", "w", ""}, {2, 2})}, {"b", Strings({"p", "q"}, {2, 1})}};
  const FeatureColumn crossed = crossed_column({"a", "b"}, {.hash_bucket_size = 1000});
  EXPECT_EQ(crossed->sparse_ids(features).ids.numel(), 4);
  features.lengths["a"] = at::tensor({2, 1}, at::kLong);
  EXPECT_TRUE(at::equal(crossed->sparse_ids(features).ids, at::tensor({343, 421, 437}, at::kLong)));
}

TEST(CrossedColumn, IsNamedByItsLeaves) {
  const FeatureColumn inner = crossed_column({"b", kPets}, {.hash_bucket_size = 5});
  EXPECT_EQ(crossed_column({inner, "a"}, {.hash_bucket_size = 5}).name(), "a_X_b_X_pet");
}

TEST(WeightedColumn, PairsWeightsWithWhatIsThere) {
  const FeatureColumn weighted = weighted_categorical_column(kPets, {.weight_feature_key = "weight"});
  Columns features{{"pet", Strings({"cat", "", "dog", "emu"}, {2, 2})}, {"weight", at::arange(4).view({2, 2})}};
  const SparseIds ids = weighted->sparse_ids(features);
  EXPECT_TRUE(at::equal(ids.ids, at::tensor({0, 1, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(ids.weights, at::tensor({0.F, 2.F, 3.F})));
  const Tensor sums = DenseFeatures({indicator_column(weighted)})(features);
  EXPECT_TRUE(at::equal(sums, at::tensor({0.F, 0.F, 0.F, 0.F, 2.F, 3.F}).view({2, 3})));
}

TEST(EmbeddingColumn, LearnsTheRowsThatOccurred) {
  const DenseFeatures layer({embedding_column(kPets, {.dimension = 2})});
  layer(pets()).sum().backward();
  EXPECT_EQ(layer.weights()[0].name, "pet_embedding/embedding_weights");
  EXPECT_TRUE(at::equal(layer.weights()[0].value.grad(), at::tensor({1.F, 1.F, 1.F, 1.F, 0.F, 0.F}).view({3, 2})));
}

TEST(SequenceNumericColumn, FillsALastStepThatLacksNumbers) {
  const SequenceFeatures layer({sequence_numeric_column("x", {.shape = {2}, .default_value = -7})});
  Columns features{{"x", at::tensor({1.F, 2.F, 3.F, 0.F, 0.F, 0.F}).view({2, 3})}};
  EXPECT_THAT(error_of([&] { layer(features); }), HasSubstr("3 numbers in each row, no multiple of a step's 2"));
  features.lengths["x"] = at::tensor({int64_t{3}, int64_t{0}});
  const auto [steps, lengths] = layer(features);
  EXPECT_TRUE(at::equal(lengths, at::tensor({int64_t{2}, int64_t{0}})));
  EXPECT_TRUE(at::equal(steps, at::tensor({1.F, 2.F, 3.F, -7.F, -7.F, -7.F, -7.F, -7.F}).view({2, 2, 2})));
  EXPECT_THAT(error_of([] { sequence_numeric_column("x", {.shape = {}}); }), HasSubstr("shape has no extents"));
}

TEST(FeatureColumns, RefuseComplexNumbers) {
  const DenseFeatures layer({numeric_column("x")});
  EXPECT_THAT(error_of([&] {
                layer(Columns{{"x", at::ones({2}, at::kComplexFloat)}});
              }),
              HasSubstr("feature column 'x': the feature 'x' has dtype ComplexFloat"));
}

TEST(SharedEmbeddings, HaveOneTable) {
  const auto columns = shared_embeddings({categorical_column_with_vocabulary_list("w", {"a", "b"}),
                                          categorical_column_with_vocabulary_list("v", {"a", "b"})},
                                         {.dimension = 2});
  const DenseFeatures layer(columns);
  const Columns features{{"w", Strings({"a"}, {1, 1})}, {"v", Strings({"a"}, {1, 1})}};
  const Tensor output = layer(features).detach();
  ASSERT_EQ(layer.weights().size(), 1U);
  EXPECT_EQ(layer.weights()[0].name, "v_w_shared_embedding/embedding_weights");
  EXPECT_TRUE(at::equal(output.narrow(1, 0, 2), output.narrow(1, 2, 2)));
  EXPECT_EQ(make_parse_example_spec(columns).size(), 2U);
}

TEST(LinearModel, AddsWhatItsColumnsWeigh) {
  const LinearModel model({numeric_column("x"), kPets}, {.units = 2});
  Columns features = pets();
  features.set("x", at::arange(4).to(at::kFloat));
  EXPECT_TRUE(at::equal(model(features).detach(), at::zeros({4, 2})));
  ASSERT_EQ(model.weights().size(), 3U);
  EXPECT_EQ(model.weights()[0].name, "pet/weights");
  EXPECT_EQ(model.weights()[2].name, "bias_weights");
  model.set_weights({at::ones({3, 2}), at::ones({1, 2}), at::ones({2}) * 10});
  EXPECT_TRUE(at::equal(model(features).detach().select(1, 1), at::tensor({11.F, 12.F, 12.F, 13.F})));
}

TEST(LinearModel, IsTrainedInReplicas) {
  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const LinearModel model = strategy.build([] { return LinearModel({kPets}); });
  strategy.run([&] { model(pets()).sum().backward(); });
  EXPECT_TRUE(at::equal(gather(model.weights()[0].value.grad()).flatten(), at::tensor({2.F, 2.F, 0.F})));
}

TEST(SequenceFeatures, GivesStepsAndLengths) {
  const SequenceFeatures layer({indicator_column(sequence_categorical_column_with_vocabulary_list("w", {"a", "b"})),
                                sequence_numeric_column("x", {.default_value = -7})});
  Columns features{{"w", Strings({"a", "b", "b", ""}, {2, 2})}, {"x", at::arange(4).to(at::kFloat).view({2, 2})}};
  features.lengths["x"] = at::tensor({2, 1}, at::kLong);
  const auto [steps, lengths] = layer(features);
  EXPECT_TRUE(at::equal(lengths, at::tensor({2, 1}, at::kLong)));
  EXPECT_TRUE(
      at::equal(steps, at::tensor({1.F, 0.F, 0.F, 0.F, 1.F, 1.F, 0.F, 1.F, 2.F, 0.F, 0.F, -7.F}).view({2, 2, 3})));
  EXPECT_THAT(error_of([] { SequenceFeatures({numeric_column("x")}); }), HasSubstr("no column of sequences"));
}

TEST(ParseSpec, ReadsWhatColumnsAskFor) {
  const std::vector<FeatureColumn> columns{numeric_column("x", {.default_value = {2.5}}), indicator_column(kPets)};
  const Strings records({data::Example{{{"pet", data::BytesList{"dog", "cat"}}}}.serialize(),
                         data::Example{{{"x", data::FloatList{1}}}}.serialize()},
                        {2});
  const Columns features = data::parse_example(records, make_parse_example_spec(columns));
  EXPECT_TRUE(at::equal(features.lengths.at("pet"), at::tensor({2, 0}, at::kLong)));
  EXPECT_TRUE(
      at::equal(DenseFeatures(columns)(features), at::tensor({1.F, 1.F, 0.F, 2.5F, 0.F, 0.F, 0.F, 1.F}).view({2, 4})));
}

TEST(Columns, AreElementsOfADataset) {
  const Tensor place = at::arange(4) % 2;
  const auto dataset = data::from_tensor_slices(
      Columns{{"x", at::arange(4)}, {"w", strings_from(place, {"even", "odd"})}}, at::ones({4}));
  for (const auto& [features, label] : dataset.batch(3).take(1)) {
    EXPECT_EQ(features.at("w").strings(), Strings({"even", "odd", "even"}, {3}));
    EXPECT_TRUE(at::equal(features.at("x"), at::arange(3)));
    EXPECT_THAT(error_of([&] { (void)features.at("y"); }), HasSubstr("there is no column 'y'; there are 'w', 'x'"));
    EXPECT_THAT(error_of([&] { (void)features.at("w").tensor(); }), HasSubstr("taken for a Tensor"));
  }
  EXPECT_THAT(error_of([] { (void)strings_from(at::arange(3), {"a", "b"}); }), HasSubstr("index 2 at place 2"));
}

}  // namespace
}  // namespace tutti::feature_column
