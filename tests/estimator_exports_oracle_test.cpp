// What TensorFlow's Estimators exported (tests/oracle/estimator.json).
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/square.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <map>

#include "tests/support/cases_of_kinds.h"
#include "tests/support/recorded_columns.h"
#include "tests/support/recorded_estimators.h"
#include "tests/support/temporary_folder.h"
#include "tutti/estimator/export_versions.h"
#include "tutti/estimator/exporter.h"
#include "tutti/estimator/log.h"
#include "tutti/estimator/model_call.h"
#include "tutti/export/saved_model.h"
#include "tutti/feature_column/make_parse_example_spec.h"
#include "tutti/files/dtype_names.h"
#include "tutti/keras/layers/core/dense.h"
#include "tutti/keras/optimizers/sgd.h"

namespace tutti::estimator {
namespace {

using oracle::Json;
using saved_model::TensorSpec;

// As they are recorded, but for the method, which is TensorFlow Serving's.
Json recorded_form(const saved_model::Spec& spec) {
  return {{"dtype", spec.is_text ? "string" : files::dtype_name(spec.dtype)}, {"shape", spec.shape}};
}

Json recorded_form(const saved_model::SavedModel& model) {
  Json signatures = Json::object();
  for (const std::string& name : model.signature_names()) {
    Json& signature = signatures[name] = {{"inputs", Json::object()}, {"outputs", Json::object()}};
    for (const auto& input : model.signature(name).inputs()) signature["inputs"][input.name] = recorded_form(input);
    for (const auto& output : model.signature(name).outputs())
      signature["outputs"][output.name] = recorded_form(output);
  }
  return signatures;
}

bool same_signatures(const saved_model::SavedModel& model, Json expected) {
  for (Json& signature : expected) signature.erase("method");
  const Json found = recorded_form(model);
  if (found != expected) std::cout << "  signatures " << found.dump() << "\n  recorded " << expected.dump() << '\n';
  return found == expected;
}

// Each row's numbers of one feature.
data::FloatList row_of(const Tensor& feature, int64_t row) {
  const Tensor values = feature.select(0, row).reshape(-1).contiguous();
  return {values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel()};
}

saved_model::Inputs request_of(const data::Columns& features, bool parsing) {
  saved_model::Inputs request;
  if (!parsing) {
    for (const auto& [name, value] : features.numbers) request[name] = value;
    return request;
  }
  std::vector<std::string> examples;
  for (int64_t row = 0; row < features.numbers.begin()->second.size(0); ++row) {
    data::Example example;
    for (const auto& [name, value] : features.numbers) example.features[name] = row_of(value, row);
    examples.push_back(example.serialize());
  }
  return {{"examples", Strings(examples)}};
}

// What is served is what the Estimator predicts, in each signature that answers with a prediction.
bool serves_predictions(const Estimator& estimator, const saved_model::SavedModel& model, const Json& input,
                        bool parsing) {
  Json features = input;
  features["labels"] = Json();
  features["batch"] = Json();
  features["repeat"] = 1;
  const saved_model::Inputs request = request_of(oracle::columns_of(input["features"]), parsing);
  const saved_model::Outputs served = model.signature("predict")(request);
  const auto predictions = estimator.predict(oracle::input_fn_of(features), {.yield_single_examples = false});
  const data::Columns expected = *predictions.begin();
  if (served.size() != expected.size()) return false;
  for (const auto& [name, value] : served)
    if (value.is_text() ? !(value.text() == expected.at(name).strings())
                        : !at::allclose(value.tensor(), expected.at(name).tensor()))
      return std::cout << "  serves another " << name << '\n', false;
  if (!parsing) return true;
  const saved_model::Outputs by_default = model.signature(kDefaultSignature)({{"inputs", request.at("examples")}});
  const char* const own = by_default.contains("scores") ? "scores" : "outputs";
  const char* const theirs = by_default.contains("scores") ? "probabilities" : "predictions";
  return at::allclose(by_default.at(own).tensor(), expected.at(theirs).tensor());
}

bool is_timestamp(const std::filesystem::path& folder) {
  const int64_t seconds = std::stoll(folder.filename());
  return seconds > 1'600'000'000 && seconds <= std::time(nullptr) + 60;
}

bool exported(const Json& test) {
  const TemporaryFolder folder;
  const Estimator estimator = oracle::canned_estimator_of(test, folder / "model");
  const Json& train = test.at("inputs").at("train");
  estimator.train(oracle::input_fn_of(train), {.steps = 2});
  const bool parsing = test.at("receiver") == "parsing";
  const auto columns = oracle::feature_columns_of(test.at("estimator").at("feature_columns"));
  std::vector<saved_model::Spec> raw;
  for (const auto& column : columns) {
    std::vector<int64_t> shape = column->variable_shape();
    shape.insert(shape.begin(), kUnknown);
    raw.emplace_back(TensorSpec{.name = column.name(), .shape = shape});
  }
  const auto receiver = parsing
                            ? build_parsing_serving_input_receiver_fn(feature_column::make_parse_example_spec(columns))
                            : build_raw_serving_input_receiver_fn(raw);
  const auto place = estimator.export_saved_model(folder / "export", receiver);
  const auto model = saved_model::load(place);
  return is_timestamp(place) && same_signatures(model, test.at("expected").at("signatures")) &&
         serves_predictions(estimator, model, train, parsing);
}

ExportOutputs outputs_in_words(const std::string& words, const data::Columns& predictions) {
  const PredictOutput all{predictions}, one{{{"logits", predictions.at("logits")}}},
      two{{{"twice", predictions.at("twice")}}};
  if (words == "predict") return {{kDefaultSignature, all}};
  if (words == "two, default named") return {{kDefaultSignature, one}, {"second", two}};
  if (words == "two without default") return {{"a", one}, {"b", two}};
  if (words == "one not named default") return {{"a", all}};
  if (words == "regression") return {{kDefaultSignature, RegressionOutput{predictions.at("logits").tensor()}}};
  if (words == "classification scores")
    return {{kDefaultSignature, ClassificationOutput{predictions.at("logits").tensor()}}};
  return {};
}

bool export_model_fn(const Json& test) {
  const TemporaryFolder folder;
  const auto model_fn = [words = test.at("export_outputs").get<std::string>()](const Input& features,
                                                                               const Tensor& labels, ModeKeys mode) {
    const Tensor x = features.is_columns() ? features.columns().at("x").tensor() : features.tensor();
    const Tensor logits = keras::layers::Dense({.units = 1})(x);
    const data::Columns predictions{{"logits", logits}, {"twice", logits * 2}};
    if (mode == ModeKeys::predict)
      return EstimatorSpec(
          {.mode = mode, .predictions = predictions, .export_outputs = outputs_in_words(words, predictions)});
    const Tensor loss = (logits - labels).square().mean();
    return EstimatorSpec(
        {.mode = mode, .loss = loss, .train_op = keras::optimizers::SGD().minimize(loss, get_global_step())});
  };
  const Estimator estimator(model_fn, {.model_dir = folder / "model"});
  if (test.at("trained").get<bool>())
    estimator.train([] { return data::from_tensor_slices(at::ones({2, 2}), at::ones({2, 1})).batch(2); });
  const auto receiver = build_raw_serving_input_receiver_fn(TensorSpec{.name = "x", .shape = {kUnknown, 2}});
  const auto model = saved_model::load(estimator.export_saved_model(folder / "export", receiver));
  return test.contains("expected") && same_signatures(model, test["expected"].at("signatures"));
}

Metrics metrics_in(const Json& recorded) {
  Metrics metrics;
  for (const auto& [name, value] : recorded.items())
    metrics[name] = value.is_number() ? value.get<double>() : std::nan("");
  return metrics;
}

std::unique_ptr<Exporter> exporter_of(const Json& test, const ServingInputReceiverFn& receiver) {
  const std::string kind = test.at("exporter");
  if (kind == "final") return std::make_unique<FinalExporter>(FinalExporterOptions{"final", receiver});
  const auto keep =
      test.at("exports_to_keep").is_null() ? std::nullopt : std::optional(test["exports_to_keep"].get<int64_t>());
  if (kind == "latest") return std::make_unique<LatestExporter>(LatestExporterOptions{"latest", receiver, keep});
  BestExporterOptions options{.name = "best", .serving_input_receiver_fn = receiver, .exports_to_keep = keep};
  if (test.at("compare") == "accuracy_larger")
    options.compare_fn = [](const Metrics& best, const Metrics& now) {
      return now.at("accuracy") > best.at("accuracy");
    };
  return std::make_unique<BestExporter>(options);
}

bool exporter(const Json& test) {
  const TemporaryFolder folder;
  const auto model_fn = [](const Tensor& features, ModeKeys mode) {
    const Tensor logits = keras::layers::Dense({.units = 1})(features);
    const Tensor loss = logits.square().mean();
    return EstimatorSpec({.mode = mode,
                          .predictions = {{"logits", logits}},
                          .loss = loss,
                          .train_op = keras::optimizers::SGD().minimize(loss, get_global_step())});
  };
  const Estimator estimator(model_fn, {.model_dir = folder / "model"});
  const auto made =
      exporter_of(test, build_raw_serving_input_receiver_fn(TensorSpec{.name = "x", .shape = {kUnknown, 1}}));
  if (!test.contains("expected")) return false;
  estimator.train([] { return data::from_tensor_slices(at::ones({2, 1})).batch(2); });
  std::vector<std::string> versions;
  for (size_t i = 0; i < test.at("results").size(); ++i) {
    Evaluated evaluated{.export_path = folder / "export",
                        .checkpoint_path = *estimator.latest_checkpoint(),
                        .eval_result = metrics_in(test["results"][i]),
                        .is_the_final_export = i + 1 == test["results"].size()};
    evaluated.eval_result["global_step"] = static_cast<double>(i);
    const auto place = made->export_model(estimator, evaluated);
    if (place) versions.push_back(place->filename());
    Json kept = Json::array();
    for (const int64_t version : export_versions(evaluated.export_path))
      kept.push_back(std::ranges::find(versions, std::to_string(version)) - versions.begin() + 1);
    const Json found{{"exported", place.has_value()}, {"kept", kept}};
    if (found != test["expected"][i]) return std::cout << "  result " << i << ": " << found.dump() << '\n', false;
  }
  return true;
}

bool smaller(const Json& test) {
  const bool found = loss_smaller(metrics_in(test.at("best")), metrics_in(test.at("current")));
  return test.contains("expected") && found == test["expected"];
}

TEST(EstimatorExportsOracle, HoldInEveryCase) {
  oracle::run_cases_of(
      "estimator.json",
      {{"export", exported}, {"export_model_fn", export_model_fn}, {"exporter", exporter}, {"loss_smaller", smaller}});
}

}  // namespace
}  // namespace tutti::estimator
