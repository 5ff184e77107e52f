#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/estimator/estimator.h"
#include "tutti/estimator/serving_input_receiver.h"

namespace tutti::estimator {

// What train_and_evaluate tells an exporter after an evaluation.
struct Evaluated {
  std::filesystem::path export_path;  // model_dir/export/NAME
  std::filesystem::path checkpoint_path;
  Metrics eval_result;
  bool is_the_final_export = false;  // the training has come to its max_steps
};

// Exports a model for serving after evaluations, or not. TF: tf.estimator.Exporter.
class Exporter {
 public:
  // Throws: invalid_argument for an empty name.
  explicit Exporter(std::string name);
  virtual ~Exporter() = default;
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  const std::string& name() const { return name_; }
  // The folder of the export, or nothing. TF: Exporter.export.
  virtual std::optional<std::filesystem::path> export_model(const Estimator& estimator, const Evaluated& evaluated) = 0;

 private:
  std::string name_;
};

using Exporters = std::vector<std::shared_ptr<Exporter>>;

struct FinalExporterOptions {
  std::string name = {};                                  // required
  ServingInputReceiverFn serving_input_receiver_fn = {};  // required
  ExportOptions export_options = {};                      // without checkpoint_path: it is what was evaluated
};

// Exports once, when the training has come to its max_steps. TF: tf.estimator.FinalExporter.
class FinalExporter : public Exporter {
 public:
  explicit FinalExporter(FinalExporterOptions options);
  std::optional<std::filesystem::path> export_model(const Estimator& estimator, const Evaluated& evaluated) override;

 private:
  FinalExporterOptions options_;
};

struct LatestExporterOptions {
  std::string name = {};
  ServingInputReceiverFn serving_input_receiver_fn = {};
  std::optional<int64_t> exports_to_keep = 5;  // the newest; none: all
  ExportOptions export_options = {};
};

// Exports after each evaluation. Throws: invalid_argument for exports_to_keep below 1. TF: tf.estimator.LatestExporter.
class LatestExporter : public Exporter {
 public:
  explicit LatestExporter(LatestExporterOptions options);
  std::optional<std::filesystem::path> export_model(const Estimator& estimator, const Evaluated& evaluated) override;

 private:
  LatestExporterOptions options_;
};

// Whether the current evaluation is better than the best.
using CompareFn = std::function<bool(const Metrics& best_eval_result, const Metrics& current_eval_result)>;

// Whether its loss is smaller. Throws: invalid_argument where one has no loss.
bool loss_smaller(const Metrics& best_eval_result, const Metrics& current_eval_result);

struct BestExporterOptions {
  std::string name = "best_exporter";
  ServingInputReceiverFn serving_input_receiver_fn = {};
  std::filesystem::path event_dir = "eval";  // below model_dir: what earlier programs evaluated; empty: nothing did
  CompareFn compare_fn = loss_smaller;
  std::optional<int64_t> exports_to_keep = 5;
  ExportOptions export_options = {};
};

// Exports after each evaluation that is better than all before it, those of an earlier run too, as long as there is an
// export: they are read from the event files. Metrics are compared as float32, which those files hold.
// Throws: invalid_argument for exports_to_keep below 1, or no compare_fn. TF: tf.estimator.BestExporter.
class BestExporter : public Exporter {
 public:
  explicit BestExporter(BestExporterOptions options);
  std::optional<std::filesystem::path> export_model(const Estimator& estimator, const Evaluated& evaluated) override;

 private:
  std::optional<Metrics> best_of_earlier_runs(const Estimator& estimator, const Evaluated& evaluated) const;

  BestExporterOptions options_;
  std::filesystem::path model_dir_;  // of the estimator that best_ is of
  std::optional<Metrics> best_;
};

// What exporters exported, in their order; nothing where one did not.
using Exports = std::vector<std::optional<std::filesystem::path>>;

}  // namespace tutti::estimator
