#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/device/device.h"
#include "tutti/export/signature.h"
#include "tutti/export/spec.h"
#include "tutti/export/value.h"

namespace tutti::saved_model {

class Runner;

// How signatures are written as ONNX.
struct OnnxOptions {
  // Weights of more bytes together are not copied into the .onnx files, which read them from variables.safetensors
  // beside them. A file of ONNX may have 2 GiB; with 0 nothing is there twice.
  uint64_t external_weights_above = uint64_t{1} << 30;
};

struct SaveOptions {
  std::map<std::string, Signature> signatures = {};  // at least one
  // The names under which variables are saved that no Keras layer has, such as those of a torch::nn::Module:
  // named_parameters() and named_buffers(). Without a name they are "constant_0" and so on.
  std::map<std::string, Tensor> variables = {};
  bool torchscript = true;  // a file NAME.pt for each signature, which LibTorch and Python load without tutti
  std::optional<OnnxOptions> onnx = {};  // a file NAME.onnx for each signature, which ONNX's runtimes load
  bool pt2 = false;                      // a file NAME.pt2 for each signature, which Python loads by torch.export.load
};

// Saves what the signatures do, with the variables that they use, as a folder: it is all there or not at all, whenever
// this stops; a saved model that is there is replaced in one step, anything else refused. Each signature's function is
// called a few times, on made-up inputs. Sharded variables come out whole. Of processes that train together all call
// it, and the chief writes. Outside of runs and scopes. The format is docs/saved_model.md. TF: tf.saved_model.save
// Throws: unimplemented and failed_precondition for a function that cannot be saved, with the call and the way out;
// invalid_argument for names that cannot be; already_exists for something else at the place; unavailable and
// resource_exhausted from the disk.
void save(const std::filesystem::path& folder, const SaveOptions& options);

// A signature of a loaded model: a function. Copies are the same. Threads: any number may call at once.
class LoadedSignature {
 public:
  explicit LoadedSignature(std::shared_ptr<const Runner> runner) : runner_(std::move(runner)) {}

  const std::vector<Spec>& inputs() const;
  std::vector<Spec> outputs() const;

  // In the order of inputs(), or by their names. Gradients flow where they are asked for, to the variables too.
  // Throws: invalid_argument for inputs of another kind, dtype or shape, or for names that are missing or not there.
  template <std::convertible_to<Value>... Values>
  requires(!(std::same_as<Values, Inputs> || ...)) Outputs operator()(const Values&... inputs) const {
    return run({Value(inputs)...});
  }
  Outputs operator()(const Inputs& inputs) const;

 private:
  Outputs run(const std::vector<Value>& inputs) const;

  std::shared_ptr<const Runner> runner_;
};

struct LoadOptions {
  Device device = {};  // where the variables lie, outside of a strategy's scope, and the signatures run
};

// A model that was saved. TF: what tf.saved_model.load returns.
class SavedModel {
 public:
  std::vector<std::string> signature_names() const;
  // Throws: not_found, with the names that there are.
  LoadedSignature signature(const std::string& name) const;
  // By name; they may be assigned and trained. In a strategy's scope they were made as its variables.
  const std::map<std::string, Tensor>& variables() const { return variables_; }

 private:
  friend SavedModel load(const std::filesystem::path& folder, const LoadOptions& options);
  friend SavedModel load_pt2(const std::filesystem::path& file, const LoadOptions& options);

  std::map<std::string, Tensor> variables_;
  std::map<std::string, LoadedSignature> signatures_;
};

// Needs nothing of the program that saved it. Every file is checked by its checksum.
// Throws: not_found; data_loss for a folder that is damaged or no saved model; unimplemented for what this library does
// not know, by its name and version: a newer format, a step of preprocessing, an operator.
SavedModel load(const std::filesystem::path& folder, const LoadOptions& options = {});

// A program that Python wrote by torch.export.save, or save() as NAME.pt2: a model with one signature, "forward". Its
// inputs have the names of the module's arguments, its outputs those of the keys of a dictionary, or "output_0" and so
// on. The file may come from anybody: it is checked, and only public operators of LibTorch's are run.
// Throws: not_found; data_loss for a damaged file; unimplemented, by name and with the way out, for what is not read.
SavedModel load_pt2(const std::filesystem::path& file, const LoadOptions& options = {});

}  // namespace tutti::saved_model
