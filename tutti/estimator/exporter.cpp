#include "tutti/estimator/exporter.h"

#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/event_file_reader.h"
#include "tutti/estimator/export_versions.h"
#include "tutti/estimator/log.h"

namespace tutti::estimator {
namespace {

namespace fs = std::filesystem;

void require_exporter(bool holds, const std::string& name, const std::string& what) {
  if (!holds) throw Error(ErrorCode::invalid_argument, str("exporter '", name, "': ", what));
}

template <class Options>
void check_exporter(const Options& options) {
  require_exporter(static_cast<bool>(options.serving_input_receiver_fn), options.name,
                   "there is no serving_input_receiver_fn");
  require_exporter(options.export_options.checkpoint_path.empty(), options.name,
                   str("export_options name the checkpoint '", options.export_options.checkpoint_path.string(),
                       "'; the one that was evaluated is exported"));
  if constexpr (requires { options.exports_to_keep; })
    require_exporter(!options.exports_to_keep || *options.exports_to_keep > 0, options.name,
                     str("exports_to_keep is ", options.exports_to_keep.value_or(0), "; it is positive, or none"));
}

template <class Options>
fs::path export_now(const Estimator& estimator, const Evaluated& evaluated, const Options& options) {
  ExportOptions saved = options.export_options;
  saved.checkpoint_path = evaluated.checkpoint_path;
  const fs::path folder = estimator.export_saved_model(evaluated.export_path, options.serving_input_receiver_fn, saved);
  if constexpr (requires { options.exports_to_keep; })
    if (options.exports_to_keep) remove_old_exports(evaluated.export_path, *options.exports_to_keep);
  return folder;
}

// As event files hold them.
Metrics rounded(const Metrics& metrics) {
  Metrics result;
  for (const auto& [name, value] : metrics) result[name] = static_cast<float>(value);
  return result;
}

}  // namespace

Exporter::Exporter(std::string name) : name_(std::move(name)) {
  require_exporter(!name_.empty() && name_.find('/') == std::string::npos && name_ != "." && name_ != "..", name_,
                   "the name is that of a folder, which is neither empty nor a path");
}

FinalExporter::FinalExporter(FinalExporterOptions options) : Exporter(options.name), options_(std::move(options)) {
  check_exporter(options_);
}

std::optional<fs::path> FinalExporter::export_model(const Estimator& estimator, const Evaluated& evaluated) {
  if (!evaluated.is_the_final_export) return {};
  log_info("Performing the final export in the end of training.");
  return export_now(estimator, evaluated, options_);
}

LatestExporter::LatestExporter(LatestExporterOptions options) : Exporter(options.name), options_(std::move(options)) {
  check_exporter(options_);
}

std::optional<fs::path> LatestExporter::export_model(const Estimator& estimator, const Evaluated& evaluated) {
  return export_now(estimator, evaluated, options_);
}

bool loss_smaller(const Metrics& best_eval_result, const Metrics& current_eval_result) {
  for (const Metrics* const result : {&best_eval_result, &current_eval_result})
    if (!result->contains("loss"))
      throw Error(ErrorCode::invalid_argument,
                  str("loss_smaller: the ", result == &best_eval_result ? "best" : "current",
                      " evaluation has no loss; give BestExporter a compare_fn for the metrics that there are"));
  return current_eval_result.at("loss") < best_eval_result.at("loss");
}

BestExporter::BestExporter(BestExporterOptions options) : Exporter(options.name), options_(std::move(options)) {
  check_exporter(options_);
  require_exporter(static_cast<bool>(options_.compare_fn), options_.name, "there is no compare_fn");
}

// The evaluation at hand is in the files already. Without an export none of them led to one.
std::optional<Metrics> BestExporter::best_of_earlier_runs(const Estimator& estimator,
                                                          const Evaluated& evaluated) const {
  if (options_.event_dir.empty()) return {};
  log_info("Loading best metric from event files.");
  if (export_versions(evaluated.export_path).empty()) return {};
  const auto now = static_cast<int64_t>(evaluated.eval_result.at("global_step"));
  std::optional<Metrics> best;
  for (const auto& [step, values] : data::read_scalars(estimator.model_dir() / options_.event_dir)) {
    if (step == now) continue;
    Metrics metrics(values.begin(), values.end());
    metrics["global_step"] = static_cast<float>(step);
    if (!best || options_.compare_fn(*best, metrics)) best = std::move(metrics);
  }
  return best;
}

std::optional<fs::path> BestExporter::export_model(const Estimator& estimator, const Evaluated& evaluated) {
  if (model_dir_ != estimator.model_dir()) {
    best_ = best_of_earlier_runs(estimator, evaluated);
    model_dir_ = estimator.model_dir();
  }
  Metrics current = rounded(evaluated.eval_result);
  if (best_ && !options_.compare_fn(*best_, current)) return {};
  log_info("Performing best model export.");
  const fs::path folder = export_now(estimator, evaluated, options_);
  best_ = std::move(current);
  return folder;
}

}  // namespace tutti::estimator
