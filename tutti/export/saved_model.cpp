#include "tutti/export/saved_model.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "tutti/checkpoint/safetensors.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/export/checksum.h"
#include "tutti/export/description.h"
#include "tutti/export/pt2/read_pt2.h"
#include "tutti/export/runner.h"
#include "tutti/export/steps.h"
#include "tutti/tensor/torch_device.h"
#include "tutti/tensor/view.h"

namespace tutti::saved_model {
namespace {

namespace fs = std::filesystem;
using checkpoint::FileSystem;

constexpr uint64_t kMaxAssetBytes = 1ULL << 30;

void check_files(FileSystem& files, const fs::path& folder, const Description& description) {
  for (const Description::File& file : description.files) {
    const fs::path path = folder / file.name;
    const auto damaged = [&](const std::string& what) {
      throw Error(ErrorCode::data_loss, str("saved_model: '", path.string(), "' ", what));
    };
    if (!files.exists(path)) damaged("is missing");
    const Checksum checksum = checksum_of(files, path);
    if (checksum.num_bytes != static_cast<uint64_t>(file.num_bytes))
      damaged(str("has ", checksum.num_bytes, " bytes; it had ", file.num_bytes));
    if (checksum.crc32c != file.crc32c) damaged("is damaged: its bytes have another CRC32C than was stored");
  }
}

bool is_listed(const Description& description, const std::string& name) {
  return std::ranges::find(description.files, name, &Description::File::name) != description.files.end();
}

// In a scope at::empty() makes a variable of the strategy.
Tensor placed(const Tensor& value, const Description::Variable& variable, at::Device device) {
  const c10::NoGradGuard no_grad;
  Tensor placed = value;
  if (ThreadView::current().scope || !device.is_cpu()) {
    placed = at::empty(value.sizes(), value.options().device(device));
    placed.copy_(value);
  }
  const bool may_have_gradient = value.is_floating_point();
  return placed.set_requires_grad(variable.requires_grad && may_have_gradient);
}

std::map<std::string, Tensor> read_variables(FileSystem& files, const fs::path& folder, const Description& description,
                                             at::Device device) {
  std::map<std::string, Tensor> variables;
  if (description.variables.empty()) return variables;
  if (!is_listed(description, kVariablesName))
    throw Error(ErrorCode::data_loss, str("saved_model: '", folder.string(),
                                          "' has variables, and does not list the "
                                          "file that holds them"));
  const checkpoint::SafetensorsFile file(files, folder / kVariablesName);
  for (const Description::Variable& variable : description.variables) {
    const auto entry = std::ranges::find(file.entries(), variable.name, &checkpoint::SafetensorsEntry::name);
    if (entry == file.entries().end())
      throw Error(ErrorCode::data_loss, str("saved_model: '", (folder / kVariablesName).string(),
                                            "' lacks the variable '", variable.name, '\''));
    variables.emplace(variable.name, placed(file.read(*entry), variable, device));
  }
  return variables;
}

// Options of a step that its layer refuses are damage: nobody saved them.
Runner::Step step_of(const Call& call, const std::function<std::string(const std::string& file)>& asset,
                     const std::string& source) {
  try {
    const PreprocessingOptions layer = parse_step(call.op, call.version, call.config, asset, source);
    if (const size_t given = operands_of(call).size(), wanted = num_inputs_of(layer); given != wanted)
      throw Error(ErrorCode::data_loss,
                  str(source, ": the step '", call.op, "' gets ", given, " values, and takes ", wanted));
    return make_step(layer);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument && error.code() != ErrorCode::failed_precondition) throw;
    throw Error(ErrorCode::data_loss, str(source, ": the step '", call.op, "': ", error.what()));
  }
}

}  // namespace

const std::vector<Spec>& LoadedSignature::inputs() const { return runner_->program().inputs; }

std::vector<Spec> LoadedSignature::outputs() const {
  std::vector<Spec> specs;
  for (const auto& output : runner_->program().outputs) specs.push_back(output.spec);
  return specs;
}

Outputs LoadedSignature::run(const std::vector<Value>& inputs) const {
  std::vector<Value> values = runner_->run(inputs);
  Outputs outputs;
  for (size_t i = 0; i < values.size(); ++i)
    outputs.emplace(runner_->program().outputs[i].spec.name, std::move(values[i]));
  return outputs;
}

Outputs LoadedSignature::operator()(const Inputs& inputs) const {
  std::vector<Value> values;
  for (const Spec& spec : runner_->program().inputs) {
    const auto found = inputs.find(spec.name);
    if (found == inputs.end())
      throw Error(ErrorCode::invalid_argument, str("saved_model: the input '", spec.name, "' is missing"));
    values.push_back(found->second);
  }
  if (values.size() != inputs.size())
    throw Error(ErrorCode::invalid_argument, str("saved_model: '", runner_->program().name, "' got ", inputs.size(),
                                                 " inputs; it has ", values.size()));
  return run(values);
}

std::vector<std::string> SavedModel::signature_names() const {
  std::vector<std::string> names;
  for (const auto& [name, signature] : signatures_) names.push_back(name);
  return names;
}

LoadedSignature SavedModel::signature(const std::string& name) const {
  if (const auto found = signatures_.find(name); found != signatures_.end()) return found->second;
  throw Error(ErrorCode::not_found,
              str("saved_model: no signature '", name, "'; there are ", str_list(signature_names())));
}

SavedModel load(const fs::path& folder, const LoadOptions& options) {
  require_global_view("saved_model::load");
  FileSystem& files = checkpoint::posix_file_system();
  const at::Device device = torch_device(options.device);
  const std::string source = str("saved_model: '", (folder / kDescriptionName).string(), '\'');
  const Description description =
      parse_description(read_text(files, folder / kDescriptionName, kMaxDescriptionBytes), source);
  check_files(files, folder, description);
  SavedModel model;
  model.variables_ = read_variables(files, folder, description, device);
  const auto asset = [&](const std::string& name) {
    if (!is_listed(description, name))
      throw Error(ErrorCode::data_loss, str(source, ": does not list the file '", name, "' of a step"));
    return read_text(files, folder / name, kMaxAssetBytes);
  };
  for (const Program& program : description.signatures) {
    std::vector<Tensor> variables;
    for (const std::string& name : program.variables) variables.push_back(model.variables_.at(name));
    std::vector<Runner::Step> steps;
    for (const Call& call : program.calls)
      if (call.is_step) steps.push_back(step_of(call, asset, source));
    model.signatures_.emplace(program.name, LoadedSignature(std::make_shared<Runner>(
                                                program, std::move(variables), std::move(steps), device, source)));
  }
  return model;
}

SavedModel load_pt2(const fs::path& file, const LoadOptions& options) {
  require_global_view("saved_model::load_pt2");
  const at::Device device = torch_device(options.device);
  pt2::ReadProgram read = pt2::read_pt2(file);
  SavedModel model;
  for (const auto& [name, value] : read.variables)
    model.variables_.emplace(name, placed(value, {name, value.requires_grad()}, device));
  std::vector<Tensor> variables;
  for (const std::string& name : read.program.variables) variables.push_back(model.variables_.at(name));
  const std::string name = read.program.name;
  model.signatures_.emplace(name, LoadedSignature(std::make_shared<Runner>(
                                      std::move(read.program), std::move(variables), std::vector<Runner::Step>(),
                                      device, str("load_pt2: '", file.string(), '\''), std::move(read.check_inputs))));
  return model;
}

}  // namespace tutti::saved_model
