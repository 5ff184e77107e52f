#include "tutti/keras/callbacks/model_checkpoint.h"

#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>

#include "tutti/checkpoint/checkpoint.h"
#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/keras/callbacks/path_template.h"
#include "tutti/keras/callbacks/writable_folder.h"
#include "tutti/keras/model.h"

namespace tutti::keras::callbacks {
namespace {

std::string five_digits(double value) { return str(std::fixed, std::setprecision(5), value); }

class ModelCheckpointImpl : public CallbackImpl {
 public:
  explicit ModelCheckpointImpl(const ModelCheckpointOptions& options)
      : options_(options),
        path_(options.filepath),
        monitor_("ModelCheckpoint", options.monitor, options.mode),
        counter_(options.save_freq),
        best_(options.initial_value_threshold) {
    if (options.filepath.ends_with(".keras"))
      throw Error(ErrorCode::invalid_argument,
                  str("ModelCheckpoint: filepath ", options.filepath,
                      " ends in .keras, Keras's files, which are not written; give the name of a folder for a "
                      "checkpoint, or of a file in .weights.h5, .safetensors or .npz with save_weights_only = true"));
    const bool is_file = options.filepath.ends_with(".weights.h5") || options.filepath.ends_with(".safetensors") ||
                         options.filepath.ends_with(".npz");
    if (is_file == options.save_weights_only) return;
    throw Error(ErrorCode::invalid_argument,
                str("When using `save_weights_only=", is_file ? "false" : "true",
                    "` in `ModelCheckpoint`, the filepath provided must ", is_file ? "not " : "",
                    "end in `.weights.h5`, `.safetensors` or `.npz`, which are files of weights. Received: filepath=",
                    options.filepath));
  }

  void on_train_begin(TrainingState& state) override {
    says_ = options_.verbose && state.model.model().strategy().is_chief();
    make_writable_folder("ModelCheckpoint", path_.fixed_folder());
    if (options_.save_best_only) monitor_.resolve(state.model);
  }

  void on_epoch_begin(TrainingState&, int64_t epoch) override { epoch_ = epoch; }

  void on_train_batch_end(TrainingState& state, int64_t batch, const RunningLogs& running) override {
    if (counter_.due(batch)) save(state.model, batch + 1, running.logs());
  }

  void on_epoch_end(TrainingState& state, int64_t, Logs& logs) override {
    if (!options_.save_freq.batches()) save(state.model, std::nullopt, logs);
  }

  bool has_train_batch_hooks() const override { return options_.save_freq.batches().has_value(); }

 private:
  // `batch` counts from 1.
  void save(const Model& model, std::optional<int64_t> batch, const Logs& logs) {
    const std::filesystem::path path = path_.fill({.epoch = epoch_ + 1, .batch = batch, .logs = logs});
    if (!is_due(model, logs, path)) return;
    make_writable_folder("ModelCheckpoint", path.parent_path());
    if (options_.save_weights_only)
      model.save_weights(path);
    else
      Checkpoint({{"model", model}}).write(path);
    say("finished saving model to " + path.string());
  }

  // Whether to save, by what was seen; takes the value as the best one if it is.
  bool is_due(const Model& model, const Logs& logs, const std::filesystem::path& path) {
    if (!options_.save_best_only) {
      say("saving model to " + path.string());
      return true;
    }
    monitor_.resolve(model);
    const std::optional<double> current = monitor_.value(logs);
    if (!current) {
      warn(str("Can save best model only with ", monitor_.name(), " available; it is saved without. ",
               monitor_.available(logs)));
      return true;
    }
    const std::string before = best_ ? five_digits(*best_) : "None";
    if (!monitor_.improves(*current, best_)) {
      say(str(monitor_.name(), " did not improve from ", before));
      return false;
    }
    say(str(monitor_.name(), " improved from ", before, " to ", five_digits(*current), ", saving model to ",
            path.string()));
    best_ = current;
    return true;
  }

  void say(const std::string& what) const {
    if (says_) std::cout << "\nEpoch " << epoch_ + 1 << ": " << what << '\n' << std::flush;
  }

  ModelCheckpointOptions options_;
  PathTemplate path_;
  Monitor monitor_;
  BatchCounter counter_;
  std::optional<double> best_;
  int64_t epoch_ = 0;
  bool says_ = false;
};

}  // namespace

ModelCheckpoint::ModelCheckpoint(const ModelCheckpointOptions& options)
    : Callback(std::make_shared<ModelCheckpointImpl>(options)) {}

}  // namespace tutti::keras::callbacks
