// Who earns much? A linear, a deep and a combined model on made-up people, read from CSV and from TFRecords; a training
// that is killed goes on where it was.
//
//   census --folder DIR [--model linear|deep|combined] [--steps 300] [--from csv|records]
#include <torch/torch.h>
#include <tutti/tutti.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <random>

using namespace tutti;
namespace fc = tutti::feature_column;

namespace {

constexpr const char* kSchools[] = {"none", "school", "college", "university"};
constexpr const char* kJobs[] = {"sales", "craft", "care", "office", "farm"};

struct Person {
  int age, hours;
  std::string school, job;
  int earns_much;
};

std::vector<Person> make_people(int count, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t n) { return static_cast<int>(random() % n); };
  std::vector<Person> people;
  for (int i = 0; i < count; ++i) {
    const int age = 18 + below(50), hours = 10 + below(50), school = below(4), job = below(5);
    const bool office_after_university = school == 3 && job == 3;
    const double score = 0.05 * (age - 40) + 0.06 * (hours - 35) + 0.8 * (school - 1.5) + 2.0 * office_after_university;
    people.push_back({age, hours, kSchools[school], kJobs[job], score + 0.01 * (below(200) - 100) > 0});
  }
  return people;
}

void write_files(const std::filesystem::path& folder, const std::string& name, const std::vector<Person>& people) {
  std::ofstream csv(folder / (name + ".csv"));
  csv << "age,hours,school,job,earns_much\n";
  data::TFRecordWriter records(folder / (name + ".tfrecords"));
  for (const Person& person : people) {
    csv << person.age << ',' << person.hours << ',' << person.school << ',' << person.job << ',' << person.earns_much
        << '\n';
    records.write(data::Example{{{"age", data::FloatList{static_cast<float>(person.age)}},
                                 {"hours", data::FloatList{static_cast<float>(person.hours)}},
                                 {"school", data::BytesList{person.school}},
                                 {"job", data::BytesList{person.job}},
                                 {"earns_much", data::Int64List{person.earns_much}}}}
                      .serialize());
  }
}

using Labelled = std::tuple<data::Columns, Tensor>;

Labelled with_label(data::Columns columns) {
  const Tensor label = columns.extract("earns_much").tensor();
  return {std::move(columns), label};
}

data::Dataset<Labelled> from_csv(const std::filesystem::path& file) {
  return data::csv_dataset({file}).map([](const data::CsvRow& row) { return with_label(row); });
}

data::Dataset<Labelled> from_records(const std::filesystem::path& file, const std::vector<fc::FeatureColumn>& columns) {
  data::ParseSpec spec = fc::make_parse_example_spec(columns);
  spec["earns_much"] = data::FixedLenFeature<int64_t>{"earns_much"};
  return data::tfrecord_dataset({file}).batch(64).map(
      [spec](const Strings& records) { return with_label(data::parse_example(records, spec)); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"who earns much"};
  std::filesystem::path folder;
  std::string model = "combined", source = "csv";
  int64_t steps = 300;
  app.add_option("--folder", folder)->required();
  app.add_option("--model", model)->check(CLI::IsMember({"linear", "deep", "combined"}));
  app.add_option("--from", source)->check(CLI::IsMember({"csv", "records"}));
  app.add_option("--steps", steps);
  CLI11_PARSE(app, argc, argv);

  std::filesystem::create_directories(folder);
  write_files(folder, "train", make_people(4000, 1));
  write_files(folder, "eval", make_people(1000, 2));

  const auto age = fc::numeric_column("age", {.normalizer_fn = [](const Tensor& years) { return (years - 43) / 15; }});
  const auto hours =
      fc::numeric_column("hours", {.normalizer_fn = [](const Tensor& hours) { return (hours - 35) / 14; }});
  const auto school =
      fc::categorical_column_with_vocabulary_list("school", {"none", "school", "college", "university"});
  const auto job = fc::categorical_column_with_hash_bucket("job", {.hash_bucket_size = 20});
  const std::vector<fc::FeatureColumn> wide{age, hours, school, job,
                                            fc::crossed_column({"school", "job"}, {.hash_bucket_size = 50})};
  const std::vector<fc::FeatureColumn> deep{age, hours, fc::indicator_column(school),
                                            fc::embedding_column(job, {.dimension = 4})};

  const auto input = [&](const char* name) {
    const auto file = folder / name;
    return source == "csv" ? from_csv(file.string() + ".csv").batch(64)
                           : from_records(file.string() + ".tfrecords", wide);
  };
  const auto train_input = [&] { return input("train").shuffle(16, {.seed = 5}).repeat(); };
  const auto eval_input = [&] { return input("eval"); };

  MirroredStrategy strategy({.devices = configure_logical_cpus(2)});
  const std::string model_dir = folder / model;
  const estimator::RunConfig config(
      {.tf_random_seed = 1, .save_checkpoints_steps = 50, .train_distribute = strategy, .eval_distribute = strategy});
  const auto make = [&]() -> estimator::Estimator {
    if (model == "linear")
      return estimator::LinearClassifier({.feature_columns = wide, .model_dir = model_dir, .config = config});
    if (model == "deep")
      return estimator::DNNClassifier({.hidden_units = {16, 8},
                                       .feature_columns = deep,
                                       .model_dir = model_dir,
                                       .optimizer = "Adam",
                                       .dropout = 0.1,
                                       .config = config});
    return estimator::DNNLinearCombinedClassifier({.model_dir = model_dir,
                                                   .linear_feature_columns = wide,
                                                   .dnn_feature_columns = deep,
                                                   .dnn_optimizer = "Adam",
                                                   .dnn_hidden_units = {16, 8},
                                                   .dnn_dropout = 0.1,
                                                   .config = config});
  };
  const auto [metrics, exports] =
      estimator::train_and_evaluate(make(), estimator::TrainSpec({.input_fn = train_input, .max_steps = steps}),
                                    estimator::EvalSpec({.input_fn = eval_input, .steps = {}, .throttle_secs = 1}));
  if (metrics.empty())
    std::cout << "there was nothing left to train\n";
  else
    std::cout << "accuracy " << metrics.at("accuracy") << ", of who always says the same "
              << metrics.at("accuracy_baseline") << '\n';
}
