#include "tutti/data/image_dataset_from_directory.h"

#include <algorithm>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/class_folders.h"
#include "tutti/data/decode_image.h"
#include "tutti/data/graph/call_text.h"
#include "tutti/data/resize_image.h"

namespace tutti::data {
namespace {

int channels_of(ColorMode mode) {
  switch (mode) {
    case ColorMode::grayscale: return 1;
    case ColorMode::rgb: return 3;
    case ColorMode::rgba: return 4;
  }
  throw Error(ErrorCode::internal, "ColorMode has no such value");
}

int num_threads(int num_parallel_calls) {
  return num_parallel_calls > 0 ? num_parallel_calls
                                : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

LabeledDataset<std::tuple<Tensor, Tensor>> image_dataset_from_directory(const std::filesystem::path& directory,
                                                                        const ImageDirectoryOptions& options) {
  if (options.num_parallel_calls < 0)
    throw Error(ErrorCode::invalid_argument, str("image_dataset_from_directory: num_parallel_calls ",
                                                 options.num_parallel_calls, "; it must not be negative"));
  const auto [height, width] = options.image_size;
  if (height < 1 || width < 1)
    throw Error(ErrorCode::invalid_argument, str("image_dataset_from_directory: image_size ",
                                                 str_list(options.image_size), "; sizes must be at least 1"));
  auto files = files_of_classes(directory, {.op = "image_dataset_from_directory",
                                            .extensions = {".jpg", ".jpeg", ".png"},
                                            .refused = {".gif", ".bmp"},
                                            .label_mode = options.label_mode,
                                            .class_names = options.class_names,
                                            .batch_size = options.batch_size,
                                            .shuffle = options.shuffle,
                                            .seed = options.seed,
                                            .validation_split = options.validation_split,
                                            .subset = options.subset,
                                            .verbose = options.verbose});
  const auto load = [size = options.image_size, channels = channels_of(options.color_mode)](const Strings& path,
                                                                                            const Tensor& label) {
    const Tensor image = decode_image(read_file(path.item()), {.channels = channels}, path.item());
    return std::tuple(resize_image(image, size[0], size[1]), label);
  };
  const auto images = files.map(load, {.num_parallel_calls = num_threads(options.num_parallel_calls)});
  const std::string call =
      graph::call_text("image_dataset_from_directory", height, width, channels_of(options.color_mode));
  const Dataset<std::tuple<Tensor, Tensor>> made(graph::made_by(images.node(), call));
  return {made.batch(options.batch_size).prefetch(1), std::move(files.class_names)};
}

}  // namespace tutti::data
