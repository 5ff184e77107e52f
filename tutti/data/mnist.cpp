#include "tutti/data/mnist.h"

#include <string>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/idx.h"

namespace tutti::data {
namespace {

Tensor read_part(const std::filesystem::path& folder, const std::string& name) {
  for (const auto& path : {folder / name, folder / (name + ".gz")})
    if (std::filesystem::is_regular_file(path)) return read_idx(path);
  throw Error(ErrorCode::not_found,
              str("load_mnist: no ", name, " in '", folder.string(), "'",
                  std::filesystem::is_directory(folder) ? "" : " (there is no such folder)",
                  "; the folder must hold train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
                  "t10k-labels-idx1-ubyte, each plain or as .gz. Name the folder that has them: in Tutti's source tree "
                  "it is examples/data/mnist"));
}

Dataset<std::tuple<Tensor, Tensor>> read_pairs(const std::filesystem::path& folder, const std::string& prefix) {
  const Tensor images = read_part(folder, prefix + "-images-idx3-ubyte");
  const Tensor labels = read_part(folder, prefix + "-labels-idx1-ubyte");
  if (images.dim() != 3 || labels.dim() != 1 || images.size(0) != labels.size(0))
    throw Error(ErrorCode::data_loss, str("load_mnist: in '", folder.string(), "' the images of ", prefix,
                                          " have shape ", str_list(images.sizes()), " and the labels ",
                                          str_list(labels.sizes()), "; they must be [n, rows, columns] and [n]"));
  return from_tensor_slices(images.unsqueeze(3), labels.to(at::kLong));
}

}  // namespace

Mnist load_mnist(const std::filesystem::path& folder) {
  return {.train = read_pairs(folder, "train"), .test = read_pairs(folder, "t10k")};
}

}  // namespace tutti::data
