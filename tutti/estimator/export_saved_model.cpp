// Estimator::export_saved_model.
#include <algorithm>
#include <utility>

#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/estimator/estimator_state_internal.h"
#include "tutti/estimator/export_versions.h"
#include "tutti/estimator/kept_random_state_internal.h"
#include "tutti/estimator/log.h"
#include "tutti/export/generalize.h"
#include "tutti/export/saved_model.h"
#include "tutti/export/step_samples.h"

namespace tutti::estimator {
namespace {

using keras::layers::PreprocessingOptions;
using keras::layers::StepRecordGuard;
using keras::layers::TensorOrText;

// Steps on text answer as on text that they know: what a made-up request brings is none.
class SampleSteps : public keras::layers::StepRecorder {
 public:
  TensorOrText step(PreprocessingOptions layer, std::vector<TensorOrText> inputs) override {
    const StepRecordGuard none(nullptr);
    const saved_model::Value result = saved_model::sample_step(layer, inputs);
    if (result.is_text()) return result.text();
    return result.tensor();
  }
};

// What the model is called with to make its variables.
Input sample_features(const ServingInputReceiver& receiver) {
  size_t num_sizes = 0;
  for (const auto& axes : saved_model::sizes_of_inputs(receiver.inputs))
    for (const int size : axes) num_sizes = std::max(num_sizes, static_cast<size_t>(size + 1));
  const auto values = saved_model::sample_inputs(receiver.inputs, std::vector<int64_t>(num_sizes, 2));
  saved_model::Inputs request;
  for (size_t i = 0; i < values.size(); ++i) request[receiver.inputs[i].name] = values[i];
  return receiver.features(request);
}

void check_receiver(const ServingInputReceiver& receiver) {
  const auto refuse = [](const char* what) {
    throw Error(ErrorCode::invalid_argument,
                str("export_saved_model: serving_input_receiver_fn gave a receiver ", what));
  };
  if (receiver.inputs.empty()) refuse("without inputs");
  if (!receiver.features) refuse("without a function that makes features");
  for (const saved_model::Spec& input : receiver.inputs)
    if (input.name.empty()) refuse("with an input that has no name");
}

// Requests for classes and numbers are serialized Examples, one text: others cannot be answered so.
bool can_be_served(const ExportOutput& output, const ServingInputReceiver& receiver) {
  return std::holds_alternative<PredictOutput>(output) || (receiver.inputs.size() == 1 && receiver.inputs[0].is_text);
}

struct Outputs {
  saved_model::Outputs operator()(const PredictOutput& output) const {
    saved_model::Outputs values;
    for (const auto& [name, tensor] : output.outputs.numbers) values.emplace(name, tensor);
    for (const auto& [name, text] : output.outputs.strings) values.emplace(name, text);
    return values;
  }
  saved_model::Outputs operator()(const RegressionOutput& output) const { return {{"outputs", output.value}}; }
  saved_model::Outputs operator()(const ClassificationOutput& output) const {
    saved_model::Outputs values;
    if (output.scores.defined()) values.emplace("scores", output.scores);
    if (output.classes) values.emplace("classes", *output.classes);
    return values;
  }
};

saved_model::Signature signature_of(ModelRun& run, const ServingInputReceiver& receiver, const std::string& name,
                                    const ExportOutput& output) {
  std::vector<saved_model::Spec> inputs = receiver.inputs;
  const bool renames = !std::holds_alternative<PredictOutput>(output);
  if (renames) inputs[0].name = "inputs";
  const auto answer = [&run, &receiver, name, renames](const saved_model::Inputs& request) {
    saved_model::Inputs own = request;
    if (renames) own = {{receiver.inputs[0].name, request.at("inputs")}};
    const EstimatorSpec spec = run.describe(receiver.features(own));
    return std::visit(Outputs(), served_outputs(spec->export_outputs, spec->predictions).at(name));
  };
  return {answer, {.inputs = std::move(inputs)}};
}

// "['predict', 'serving_default']", or "None".
std::string names_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += str(text.empty() ? "['" : ", '", name, '\'');
  return text.empty() ? "None" : text + ']';
}

void log_signatures(const ExportOutputs& outputs, const ServingInputReceiver& receiver) {
  std::vector<std::string> by_method[3], excluded;
  for (const auto& [name, output] : outputs)
    (can_be_served(output, receiver) ? by_method[output.index()] : excluded).push_back(name);
  log_info("Signatures INCLUDED in export for Classify: " + names_text(by_method[2]));
  log_info("Signatures INCLUDED in export for Regress: " + names_text(by_method[1]));
  log_info("Signatures INCLUDED in export for Predict: " + names_text(by_method[0]));
  log_info("Signatures INCLUDED in export for Train: None");
  log_info("Signatures INCLUDED in export for Eval: None");
  if (excluded.empty()) return;
  log_info(str("Signatures EXCLUDED from export, as they answer serialized Examples, one input of text: ",
               names_text(excluded)));
  if (std::ranges::find(excluded, kDefaultSignature) != excluded.end())
    log_info("Export includes no default signature!");
}

}  // namespace

std::filesystem::path Estimator::export_saved_model(const std::filesystem::path& export_dir_base,
                                                    const ServingInputReceiverFn& serving_input_receiver_fn,
                                                    const ExportOptions& options) const {
  if (!serving_input_receiver_fn)
    throw Error(ErrorCode::invalid_argument, "export_saved_model: there is no serving_input_receiver_fn");
  const auto checkpoint =
      options.checkpoint_path.empty() ? latest_checkpoint() : std::optional(options.checkpoint_path);
  if (!checkpoint)
    throw Error(ErrorCode::not_found, str("export_saved_model: there is no trained model in ", model_dir(),
                                          " yet; train() saves checkpoints"));
  const OutsideOfScopes outside("Estimator::export_saved_model");
  const ServingInputReceiver receiver = serving_input_receiver_fn();
  check_receiver(receiver);

  const KeptRandomState kept;
  ModelRun run = state_->run(ModeKeys::predict);
  log_info("Calling model_fn.");
  run.store().write_global_step();
  ExportOutputs outputs;
  {
    SampleSteps samples;
    const StepRecordGuard steps(&samples);
    const EstimatorSpec spec = run.describe(sample_features(receiver));
    outputs = served_outputs(spec->export_outputs, spec->predictions);
  }
  run.store().reset_untrained();
  log_info("Done calling model_fn.");
  log_signatures(outputs, receiver);
  log_info(str("Restoring parameters from ", checkpoint->string()));
  run.restore(*checkpoint, nullptr);
  run.store().write_global_step();

  saved_model::SaveOptions saved{
      .variables = run.store().tensors(), .torchscript = options.torchscript, .onnx = options.onnx, .pt2 = options.pt2};
  saved.variables.erase("global_step");
  for (const auto& [name, output] : outputs)
    if (can_be_served(output, receiver)) saved.signatures.emplace(name, signature_of(run, receiver, name, output));
  if (saved.signatures.empty())
    throw Error(ErrorCode::invalid_argument,
                "export_saved_model: nothing can be served: RegressionOutput and ClassificationOutput answer "
                "serialized Examples; give build_parsing_serving_input_receiver_fn, or a PredictOutput");
  const std::filesystem::path folder = on_chief(Processes::of_program(), "Estimator::export_saved_model", [&] {
    std::filesystem::create_directories(export_dir_base);
    return std::filesystem::absolute(next_export_version(export_dir_base)).string();
  });
  saved_model::save(folder, saved);
  log_info(str("SavedModel written to: ", (folder / "saved_model.json").string()));
  return folder;
}

}  // namespace tutti::estimator
