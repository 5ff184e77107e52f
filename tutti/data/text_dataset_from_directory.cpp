#include "tutti/data/text_dataset_from_directory.h"

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/class_folders.h"
#include "tutti/data/graph/call_text.h"

namespace tutti::data {
namespace {

// The first max_length bytes, or up to three fewer, so that no code point is cut.
void cut(std::string& text, size_t max_length) {
  if (text.size() <= max_length) return;
  size_t end = max_length;
  while (end > 0 && max_length - end < 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
}

}  // namespace

LabeledDataset<std::tuple<Strings, Tensor>> text_dataset_from_directory(const std::filesystem::path& directory,
                                                                        const TextDirectoryOptions& options) {
  if (options.max_length && *options.max_length < 0)
    throw Error(ErrorCode::invalid_argument,
                str("text_dataset_from_directory: max_length ", *options.max_length, "; it must not be negative"));
  auto files = files_of_classes(directory, {.op = "text_dataset_from_directory",
                                            .extensions = {".txt"},
                                            .label_mode = options.label_mode,
                                            .class_names = options.class_names,
                                            .batch_size = options.batch_size,
                                            .shuffle = options.shuffle,
                                            .seed = options.seed,
                                            .validation_split = options.validation_split,
                                            .subset = options.subset,
                                            .verbose = options.verbose});
  const auto texts = files.map([max_length = options.max_length](const Strings& path, const Tensor& label) {
    std::string text = read_file(path.item());
    if (max_length) cut(text, static_cast<size_t>(*max_length));
    return std::tuple(Strings(std::move(text)), label);
  });
  const std::string call = graph::call_text("text_dataset_from_directory", options.max_length.value_or(-1));
  const Dataset<std::tuple<Strings, Tensor>> made(graph::made_by(texts.node(), call));
  return {made.batch(options.batch_size).prefetch(1), std::move(files.class_names)};
}

}  // namespace tutti::data
