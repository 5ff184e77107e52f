// Saves the models that serve_test.py has served: write_served FOLDER. Those of docs/serving.md are two of them.
#include <tutti/tutti.h>

#include <fstream>

using namespace tutti;
namespace fc = tutti::feature_column;

// An Estimator of categories that reads Examples, in "people"; in "asked" Examples, and the logits that it predicts.
static void save_people(const std::filesystem::path& root) {
  const std::vector<data::Example> examples{
      {{{"school", data::BytesList{"college"}},
        {"job", data::BytesList{"care", "craft"}},
        {"level", data::Int64List{2}}}},
      {{{"school", data::BytesList{"unheard of"}}, {"job", data::BytesList{"\xff"}}}},
      {{}}};
  std::filesystem::create_directories(root / "asked");
  std::vector<std::string> records;
  for (size_t i = 0; i < examples.size(); ++i) {
    records.push_back(examples[i].serialize());
    std::ofstream(root / "asked" / (std::to_string(i) + ".example"), std::ios::binary) << records.back();
  }
  const auto school =
      fc::categorical_column_with_vocabulary_list("school", {"none", "college"}, {.num_oov_buckets = 1});
  const auto job = fc::categorical_column_with_hash_bucket("job", {.hash_bucket_size = 10});
  const auto level = fc::categorical_column_with_identity("level", {.num_buckets = 4});
  const std::vector<fc::FeatureColumn> wide{school, job, level,
                                            fc::crossed_column({"school", "job"}, {.hash_bucket_size = 20})};
  const estimator::DNNLinearCombinedClassifier classifier(
      {.linear_feature_columns = wide,
       .dnn_feature_columns = {fc::indicator_column(school), fc::embedding_column(job, {.dimension = 3})},
       .dnn_hidden_units = {4}});
  const data::ParseSpec spec = fc::make_parse_example_spec(wide);
  const auto parse = [spec](const Strings& batch) { return data::parse_example(batch, spec); };
  const auto read = [&] { return data::from_tensor_slices(Strings(records)).batch(3).map(parse); };
  classifier.train([&] {
    return read()
        .map([](const data::Columns& columns) {
          return std::tuple(columns, torch::tensor({1, 0, 1}));
        })
        .repeat(5);
  });
  classifier.export_saved_model(root / "people", estimator::build_parsing_serving_input_receiver_fn(spec));
  std::ofstream logits(root / "asked" / "logits");
  logits.precision(9);
  for (const auto& prediction : classifier.predict(read))
    logits << prediction.at("logits").tensor().item<float>() << '\n';
}

// TensorFlow Serving's half_plus_two, with its signatures; and "same", which gives back what it is given, of each
// dtype.
static void save_models_of_others(const std::filesystem::path& root) {
  const auto half_plus_two = [](const std::string& output) {
    return saved_model::Signature(
        [output](const Tensor& x) {
          return saved_model::Outputs{{output, x / 2 + 2}};
        },
        {.inputs = {saved_model::TensorSpec({.name = "x"})}});
  };
  saved_model::save(root / "half_plus_two",
                    {.signatures = {{"serving_default", half_plus_two("y")}, {"regress", half_plus_two("outputs")}}});
  const std::vector<std::pair<std::string, torch::ScalarType>> dtypes{
      {"BOOL", torch::kBool},   {"UINT8", torch::kUInt8}, {"INT8", torch::kInt8},
      {"INT16", torch::kInt16}, {"INT32", torch::kInt32}, {"INT64", torch::kInt64},
      {"FP16", torch::kHalf},   {"FP32", torch::kFloat},  {"FP64", torch::kDouble}};
  std::vector<saved_model::Spec> specs;
  for (const auto& [name, dtype] : dtypes) specs.emplace_back(saved_model::TensorSpec({.name = name, .dtype = dtype}));
  const auto same = [&](const saved_model::Inputs& inputs) {
    saved_model::Outputs outputs;
    for (const auto& [name, value] : inputs) outputs.emplace("same_" + name, value.tensor().clone());
    return outputs;
  };
  saved_model::save(
      root / "same",
      {.signatures = {{"serving_default", saved_model::Signature(same, {.inputs = specs})}}, .torchscript = false});
}

int main(int, char** argv) {
  const std::filesystem::path root = argv[1];
  const auto spec = [](int64_t width) { return saved_model::TensorSpec({.name = "x", .shape = {kUnknown, width}}); };
  const auto twice = [](const Tensor& x) { return saved_model::Outputs{{"y", x * 2}}; };
  saved_model::save(root / "double",
                    {.signatures = {{"serving_default", saved_model::Signature(twice, {.inputs = {spec(2)}})}}});

  // Its work grows with the cube of the row's length.
  const auto toil = [](const Tensor& x) {
    Tensor product = torch::matmul(x.t(), x);
    for (int i = 0; i < 10; ++i) product = torch::matmul(product, product).sigmoid();
    return saved_model::Outputs{{"y", product.sum()}};
  };
  saved_model::save(
      root / "toil",
      {.signatures = {
           {"serving_default", saved_model::Signature(toil, {.inputs = {saved_model::TensorSpec(
                                                                 {.name = "x", .shape = {kUnknown, kUnknown}})}})}}});

  // A flower with long leaves is of the second kind.
  const auto judge = [](const Tensor& x) {
    const Tensor longer = x.sum(1).gt(12).to(torch::kFloat);
    return saved_model::Outputs{{"scores", torch::stack({1 - longer, longer}, 1)}};
  };
  saved_model::save(root / "flowers",
                    {.signatures = {{"serving_default", saved_model::Signature(judge, {.inputs = {spec(4)}})}}});

  save_people(root);
  save_models_of_others(root);

  keras::layers::StringLookup lookup({.vocabulary = std::vector<std::string>{"good", "bad"}});
  const auto read = [&](const Strings& text) { return saved_model::Outputs{{"word", lookup(text)}}; };
  saved_model::save(
      root / "reviews",
      {.signatures = {
           {"serving_default", saved_model::Signature(read, {.inputs = {saved_model::TextSpec({.name = "text"})}})}}});
}
