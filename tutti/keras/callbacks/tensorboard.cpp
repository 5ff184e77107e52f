#include "tutti/keras/callbacks/tensorboard.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/event_file_writer.h"
#include "tutti/data/summarize.h"
#include "tutti/keras/callbacks/model_learning_rate.h"
#include "tutti/keras/model.h"

namespace tutti::keras::callbacks {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// A weight as images [N, height, width, channels], undefined where it has too many dimensions: kernels of convolutions
// one image for each output, matrices broad, vectors as columns.
Tensor images_of(const Tensor& weight) {
  Tensor image = weight.squeeze();
  if (image.dim() == 1) return image.reshape({1, -1, 1, 1});
  if (image.dim() == 2) return (image.size(0) > image.size(1) ? image.t() : image).unsqueeze(0).unsqueeze(3);
  if (image.dim() == 3) return image.permute({2, 0, 1}).unsqueeze(3);
  const bool has_colours = image.dim() == 4 && (image.size(3) == 3 || image.size(3) == 4);
  return has_colours ? image : Tensor();
}

class TensorBoardImpl : public CallbackImpl {
 public:
  explicit TensorBoardImpl(const TensorBoardOptions& options) : options_(options) {
    if (options.histogram_freq < 0)
      throw Error(ErrorCode::invalid_argument,
                  str("TensorBoard: histogram_freq is ", options.histogram_freq, "; it must be 0 or more"));
  }

  void on_train_begin(TrainingState& state) override {
    writes_ = state.model.model().strategy().is_chief();
    num_train_batches_ = 0;
    if (writes_) train();
  }

  void on_epoch_begin(TrainingState& state, int64_t) override {
    epoch_start_ = Clock::now();
    iterations_before_epoch_ = iterations(state.model);
  }

  void on_train_batch_begin(TrainingState&, int64_t) override {
    ++num_train_batches_;
    if (options_.write_steps_per_second) batch_start_ = Clock::now();
  }

  void on_train_batch_end(TrainingState&, int64_t, const RunningLogs& running) override {
    if (!writes_ || !options_.update_freq.batches() || num_train_batches_ % *options_.update_freq.batches() != 0)
      return;
    data::Event event{.step = num_train_batches_};
    if (options_.write_steps_per_second) add(event, "batch_steps_per_second", 1 / seconds_since(batch_start_));
    for (const auto& [name, value] : running.logs()) add(event, "batch_" + name, value);
    train().write(event);
  }

  void on_epoch_end(TrainingState& state, int64_t epoch, Logs& logs) override {
    if (writes_) write_logs(state.model, epoch, logs);
    if (options_.histogram_freq > 0 && epoch % options_.histogram_freq == 0) write_weights(state.model, epoch);
    if (writes_) train().flush();
  }

  void on_train_end(TrainingState&, const Logs&) override {
    close(train_);
    close(validation_);
  }

  void on_test_begin(const Model& model) override {
    writes_ = model.model().strategy().is_chief();
    if (writes_) validation();
  }

  void on_test_end(const Model& model, const Logs& logs) override {
    if (!writes_ || !model.model().compiled().optimizer) return;
    data::Event event{.step = iterations(model)};
    for (const auto& [name, value] : logs) add(event, "evaluation_" + name + "_vs_iterations", value);
    validation().write(event);
    validation().flush();
  }

  bool has_train_batch_hooks() const override { return options_.update_freq.batches().has_value(); }

 private:
  static int64_t iterations(const Model& model) { return model.model().optimizer().iterations(); }

  static void add(data::Event& event, std::string tag, double value) {
    event.values.push_back({.tag = std::move(tag), .value = static_cast<float>(value)});
  }

  void write_logs(const Model& model, int64_t epoch, const Logs& logs) {
    data::Event train_event{.step = epoch}, validation_event{.step = epoch};
    for (const auto& [name, value] : logs) {
      if (name.starts_with("val_"))
        add(validation_event, "epoch_" + name.substr(4), value);
      else if (name != "learning_rate")
        add(train_event, "epoch_" + name, value);
    }
    add(train_event, "epoch_learning_rate", learning_rate(model));
    if (options_.write_steps_per_second)
      add(train_event, "epoch_steps_per_second",
          static_cast<double>(iterations(model) - iterations_before_epoch_) / seconds_since(epoch_start_));
    train().write(train_event);
    if (validation_event.values.empty()) return;
    validation().write(validation_event);
    validation().flush();
  }

  void write_weights(const Model& model, int64_t epoch) {
    const std::vector<Tensor> values = model.get_weights();  // with several processes all read what replicas wrote
    if (!writes_) return;
    data::Event event{.step = epoch};
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string& name = model.weights()[i].name;
      event.values.push_back({.tag = name + "/histogram", .value = data::summarize_histogram(values[i])});
      const Tensor images = options_.write_images ? images_of(values[i]) : Tensor();
      if (images.defined() && images.numel() > 0)
        event.values.push_back({.tag = name + "/image", .value = data::summarize_images(images)});
    }
    train().write(event);
  }

  data::EventFileWriter& train() { return open(train_, "train"); }
  data::EventFileWriter& validation() { return open(validation_, "validation"); }
  data::EventFileWriter& open(std::optional<data::EventFileWriter>& writer, const char* folder) const {
    if (!writer) writer.emplace(options_.log_dir / folder);
    return *writer;
  }
  static void close(std::optional<data::EventFileWriter>& writer) {
    if (writer) writer->close();
    writer.reset();
  }

  TensorBoardOptions options_;
  bool writes_ = true;  // this process does: it is the chief
  std::optional<data::EventFileWriter> train_, validation_;
  int64_t num_train_batches_ = 0;  // of this training
  int64_t iterations_before_epoch_ = 0;
  Clock::time_point epoch_start_, batch_start_;
};

}  // namespace

TensorBoard::TensorBoard(const TensorBoardOptions& options) : Callback(std::make_shared<TensorBoardImpl>(options)) {}

}  // namespace tutti::keras::callbacks
