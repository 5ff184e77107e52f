#include <ATen/Version.h>
#include <torch/version.h>

#include <algorithm>
#include <set>

#include "tutti/checkpoint/new_directory.h"
#include "tutti/checkpoint/safetensors.h"
#include "tutti/collectives/processes.h"
#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/export/check_program.h"
#include "tutti/export/checksum.h"
#include "tutti/export/description.h"
#include "tutti/export/generalize.h"
#include "tutti/export/onnx/write_onnx.h"
#include "tutti/export/pt2/write_pt2.h"
#include "tutti/export/saved_model.h"
#include "tutti/export/steps.h"
#include "tutti/export/torchscript.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti::saved_model {
namespace {

namespace fs = std::filesystem;
using checkpoint::FileSystem;

[[noreturn]] void refuse_save(const std::string& what, ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, str("saved_model::save: ", what));
}

void check_options(const SaveOptions& options) {
  if (options.signatures.empty()) refuse_save("there is no signature; give at least one");
  for (const auto& [name, signature] : options.signatures) {
    if (!is_signature_name(name))
      refuse_save(str("a signature can't have the name '", name,
                      "'; a name has letters, digits, '_', '-' and '.', which is not the first"));
    std::set<std::string> names;
    for (const Spec& input : signature.inputs()) {
      if (!is_utf8(input.name) || !names.insert(input.name).second)
        refuse_save(str("the signature '", name, "' has two inputs named '", input.name, "', or it is not UTF-8"));
      if (std::ranges::any_of(input.shape, [](int64_t size) { return size < kUnknown; }))
        refuse_save(
            str("the input '", input.name, "' of '", name, "' has a negative size; kUnknown says that it is free"));
    }
  }
  for (const auto& [name, variable] : options.variables)
    if (name.empty() || name == "__metadata__" || !is_utf8(name))
      refuse_save(str("a variable can't have the name '", name, '\''));
}

// What is to be written, whole.
struct Contents {
  Description description;
  std::map<std::string, Tensor> variables;
  Assets assets;
  std::vector<std::vector<Tensor>> variables_of;  // by signature, as what follows
  std::vector<std::vector<ValueType>> types_of;
  std::vector<std::vector<CallPlace>> places_of;
};

// Variables keep their names; one that two tensors have gets a number, as does one without a name.
class VariableNames {
 public:
  explicit VariableNames(Contents& contents) : contents_(contents) {}

  // Returns its name.
  std::string add(const Recorded::Variable& variable) {
    for (const auto& [tensor, name] : known_)
      if (tensor.is_same(variable.tensor)) return name;
    const std::string wanted = variable.name.empty() ? "constant" : variable.name;
    std::string name = variable.name.empty() ? "constant_0" : wanted;
    for (int i = 1; contents_.variables.contains(name); ++i) name = str(wanted, '_', i);
    if (variable.tensor.is_complex())
      refuse_save(str("the variable '", name, "' is complex, which cannot be saved yet"), ErrorCode::unimplemented);
    Tensor value = variable.tensor.detach();
    if (is_mesh_tensor(value)) value = gather(value);
    contents_.variables.emplace(name, value.cpu().contiguous().clone());
    contents_.description.variables.push_back({name, variable.tensor.requires_grad()});
    known_.emplace_back(variable.tensor, name);
    return name;
  }

 private:
  Contents& contents_;
  std::vector<std::pair<Tensor, std::string>> known_;
};

void add_signature(const std::string& name, const Signature& signature, const SaveOptions& options,
                   VariableNames& names, Contents& contents) {
  Generalized made = generalize(
      name, signature.inputs(), [&](const std::vector<Value>& inputs) { return signature.call(inputs); },
      options.variables);
  contents.variables_of.emplace_back();
  for (size_t i = 0; i < made.variables.size(); ++i) {
    made.program.variables[i] = names.add(made.variables[i]);
    contents.variables_of.back().push_back(contents.variables.at(made.program.variables[i])
                                               .alias()
                                               .set_requires_grad(made.variables[i].tensor.requires_grad()));
  }
  size_t step = 0;
  for (Call& call : made.program.calls) {
    if (!call.is_step) continue;
    call.version = step_version(made.steps[step]);
    call.config = step_config(made.steps[step++], contents.assets);
  }
  for (const auto& output : made.program.outputs)
    if (!is_utf8(output.spec.name))
      refuse_save(str("the signature '", name, "' has an output whose name is not UTF-8"));
  contents.types_of.push_back(std::move(made.types));
  contents.places_of.push_back(std::move(made.places));
  contents.description.signatures.push_back(std::move(made.program));
}

// Nothing that is the user's is replaced.
void check_place(FileSystem& files, const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (name.empty() || name == "." || name == "..")
    refuse_save(str("can't write to '", folder.string(), "': its last part must be a name; drop the '/' at its end"));
  if (!files.exists(folder)) return;
  const auto taken = [&](const std::string& what) {
    refuse_save(str('\'', folder.string(), "' ", what, ", and is not replaced. Give another name, or move it away"),
                ErrorCode::already_exists);
  };
  if (!files.is_directory(folder) || !files.exists(folder / kDescriptionName)) taken("is no saved model");
  Description old;
  try {
    old = parse_description(read_text(files, folder / kDescriptionName, kMaxDescriptionBytes), "its description");
  } catch (const Error& error) {
    taken(str("is damaged or not of this library (", error.what(), ')'));
  }
  std::set<std::string> known = {kDescriptionName, "assets"};
  for (const Description::File& file : old.files) known.insert(file.name);
  for (const std::string& prefix : {std::string(), std::string("assets/")}) {
    if (!files.exists(folder / prefix)) continue;
    for (const checkpoint::DirectoryEntry& entry : files.list(folder / prefix))
      if (!known.contains(prefix + entry.name)) taken(str("has '", prefix, entry.name, "' in it"));
  }
}

template <class Fill>
void write_file(FileSystem& files, const fs::path& path, Fill fill) {
  const auto file = files.create(path);
  fill([&](std::span<const std::byte> bytes) { file->write(bytes); });
  file->sync();
}

void write_text(FileSystem& files, const fs::path& path, const std::string& text) {
  write_file(files, path, [&](const auto& write) { write(std::as_bytes(std::span(text))); });
}

// Where in the folder's file of variables they are, if a signature has too many of them for a file of its own.
std::map<std::string, onnx::FilePlace> places_of_variables(FileSystem& files, const fs::path& folder,
                                                           const std::vector<Tensor>& variables,
                                                           const OnnxOptions& options) {
  uint64_t num_bytes = 0;
  for (const Tensor& variable : variables) num_bytes += variable.nbytes();
  std::map<std::string, onnx::FilePlace> places;
  if (num_bytes <= options.external_weights_above) return places;
  const checkpoint::SafetensorsFile file(files, folder / kVariablesName);
  for (const auto& entry : file.entries())
    places.emplace(entry.name, onnx::FilePlace{kVariablesName, file.data_begin() + entry.begin});
  return places;
}

void write_folder(FileSystem& files, const fs::path& folder, Contents& contents, const SaveOptions& options) {
  checkpoint::NewDirectory directory(files, folder);
  const auto add = [&](const std::string& name) {
    const Checksum checksum = checksum_of(files, directory.path() / name);
    contents.description.files.push_back({name, static_cast<int64_t>(checksum.num_bytes), checksum.crc32c});
  };
  save_safetensors(files, directory.path() / kVariablesName, contents.variables);
  add(kVariablesName);
  if (!contents.assets.files().empty()) files.create_directory(directory.path() / "assets");
  for (const auto& [name, text] : contents.assets.files()) {
    write_text(files, directory.path() / name, text);
    add(name);
  }
  if (!contents.assets.files().empty()) files.sync_directory(directory.path() / "assets");
  for (size_t i = 0; i < contents.variables_of.size(); ++i) {
    const Program& program = contents.description.signatures[i];
    const std::vector<Tensor>& variables = contents.variables_of[i];
    if (options.torchscript) {
      const std::string name = program.name + ".pt";
      write_file(files, directory.path() / name,
                 [&](const auto& write) { write_torchscript(program, variables, write); });
      add(name);
    }
    if (options.pt2) {
      const std::string name = program.name + ".pt2";
      const pt2::Source source{program, variables, contents.types_of[i], contents.places_of[i]};
      write_file(files, directory.path() / name, [&](const auto& write) { pt2::write_pt2(source, write); });
      add(name);
    }
    if (!options.onnx) continue;
    const auto places = places_of_variables(files, directory.path(), variables, *options.onnx);
    write_text(files, directory.path() / (program.name + ".onnx"),
               onnx::onnx_file({.program = program,
                                .variables = variables,
                                .types = contents.types_of[i],
                                .places = contents.places_of[i],
                                .variable_places = places}));
    add(program.name + ".onnx");
  }
  write_text(files, directory.path() / kDescriptionName, description_text(contents.description));
  directory.commit();
}

}  // namespace

void save(const fs::path& folder, const SaveOptions& options) {
  require_global_view("saved_model::save");
  const GlobalViewGuard no_scope;
  check_options(options);
  const auto processes = Processes::of_program();
  on_chief(processes, "saved_model::save", [&] {
    check_place(checkpoint::posix_file_system(), folder);
    return std::string();
  });
  Contents contents;
  contents.description.torch_version = TORCH_VERSION;
  VariableNames names(contents);
  for (const auto& [name, signature] : options.signatures) add_signature(name, signature, options, names, contents);
  on_chief(processes, "saved_model::save", [&] {
    write_folder(checkpoint::posix_file_system(), folder, contents, options);
    return std::string();
  });
}

}  // namespace tutti::saved_model
