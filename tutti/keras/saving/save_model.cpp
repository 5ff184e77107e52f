#include "tutti/keras/saving/save_model.h"

#include <array>
#include <ctime>
#include <string>
#include <string_view>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/files/new_file.h"
#include "tutti/files/zip_writer.h"
#include "tutti/keras/model.h"
#include "tutti/keras/saving/keras_variables.h"
#include "tutti/keras/saving/keras_weights.h"
#include "tutti/keras/saving/model_json.h"

namespace tutti::keras {
namespace {

constexpr std::string_view kKerasVersion = "3.15.1";  // whose files these are

// "2026-11-24@02:17:31"
std::string date_saved() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d@%H:%M:%S", &local)};
}

void write_member(files::ZipWriter& zip, const std::string& name, const std::string& bytes) {
  zip.begin(name, bytes.size());
  zip.write(bytes.data(), bytes.size());
}

}  // namespace

void save_model(const Model& model, const std::filesystem::path& file, const SaveModelOptions& options) {
  if (file.extension() != ".keras")
    throw Error(ErrorCode::invalid_argument,
                str("save: the name '", file.string(), "' must end in .keras; save_weights writes weights alone"));
  (void)keras_variables(model.model());  // throws before the model is built
  const std::string json = model_json(model.model(), file.string(), options);
  const std::string metadata =
      json_object({{"keras_version", json_text(kKerasVersion)}, {"date_saved", json_text(date_saved())}});
  write_keras_weights(
      model, options.compile ? KerasState::all : KerasState::weights, [&](const files::Hdf5Bytes& weights) {
        files::NewFile part(file);
        files::ZipWriter zip(part.part(), str("save: '", file.string(), '\''), files::ZipCompression::none);
        write_member(zip, "metadata.json", metadata);
        write_member(zip, "config.json", json);
        zip.begin("model.weights.h5", weights.size());
        weights.write([&](std::string_view piece) { zip.write(piece.data(), piece.size()); });
        zip.finish();
        part.finish();
      });
}

}  // namespace tutti::keras
