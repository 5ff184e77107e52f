#include "tutti/data/class_folders.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {
namespace {

struct LabeledFiles {
  std::vector<std::string> paths = {};
  std::vector<int64_t> labels = {};
};

[[noreturn]] void refuse(const ClassFolderOptions& options, const std::string& what,
                         ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, str(options.op, ": ", what));
}

void check(const ClassFolderOptions& options) {
  if (options.batch_size < 1) refuse(options, str("batch_size ", options.batch_size, "; it must be at least 1"));
  const double split = options.validation_split;
  if (!(split >= 0 && split < 1))
    refuse(options, str("validation_split ", split, "; it must be from 0 to less than 1"));
  if ((split > 0) != options.subset.has_value())
    refuse(options, "validation_split and subset go together: set both, or neither");
  if (split > 0 && options.shuffle && !options.seed)
    refuse(options, "a validation_split of shuffled files needs a seed, the same for both subsets, or they overlap");
}

std::vector<std::string> folders_in(const std::filesystem::path& directory, const ClassFolderOptions& options) {
  if (!std::filesystem::is_directory(directory))
    refuse(options, str("there is no folder '", directory.string(), "'"), ErrorCode::not_found);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::string name = entry.path().filename().string();
    if (entry.is_directory() && !name.starts_with('.')) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> class_names(const std::filesystem::path& directory, const ClassFolderOptions& options) {
  std::vector<std::string> found = folders_in(directory, options);
  if (found.empty())
    refuse(options, str("'", directory.string(), "' has no folders; one for each class is required"),
           ErrorCode::not_found);
  if (options.class_names.empty()) return found;
  std::vector<std::string> named = options.class_names;
  std::ranges::sort(named);
  if (named != found)
    refuse(options, str("class_names are ", str_list(options.class_names), ", the folders in '", directory.string(),
                        "' are ", str_list(found), "; they must be the same, in any order"));
  return options.class_names;
}

bool has_extension(const std::filesystem::path& path, const std::vector<std::string>& extensions) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return std::ranges::find(extensions, extension) != extensions.end();
}

std::vector<std::string> files_below(const std::filesystem::path& folder, const ClassFolderOptions& options) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    if (has_extension(entry.path(), options.refused))
      refuse(options, str("'", entry.path().string(), "' is of a format that is not supported; convert or remove it"),
             ErrorCode::unimplemented);
    if (has_extension(entry.path(), options.extensions)) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);  // by folder, then by name
  std::vector<std::string> names;
  for (const auto& path : paths) names.push_back(path.string());
  return names;
}

LabeledFiles index(const std::filesystem::path& directory, const std::vector<std::string>& names,
                   const ClassFolderOptions& options) {
  LabeledFiles files;
  for (size_t i = 0; i < names.size(); ++i) {
    for (std::string& path : files_below(directory / names[i], options)) files.paths.push_back(std::move(path));
    files.labels.resize(files.paths.size(), static_cast<int64_t>(i));
  }
  if (options.verbose)
    std::cout << "Found " << files.paths.size() << " files belonging to " << names.size() << " classes." << std::endl;
  if (files.paths.empty())
    refuse(options,
           str("no files in the folders of '", directory.string(), "' end in one of ", str_list(options.extensions)),
           ErrorCode::not_found);
  return files;
}

// The files in this order.
LabeledFiles select(const LabeledFiles& files, const Tensor& order) {
  LabeledFiles selected;
  for (int64_t i = 0; i < order.numel(); ++i) {
    const auto file = static_cast<size_t>(order.const_data_ptr<int64_t>()[i]);
    selected.paths.push_back(files.paths[file]);
    selected.labels.push_back(files.labels[file]);
  }
  return selected;
}

LabeledFiles subset_of(const LabeledFiles& files, const ClassFolderOptions& options) {
  const auto count = static_cast<int64_t>(files.paths.size());
  Tensor order = at::arange(count, at::kLong);
  if (options.shuffle)
    order = options.seed ? at::randperm(count, at::make_generator<at::CPUGeneratorImpl>(*options.seed), at::kLong)
                         : at::randperm(count, at::kLong);
  if (options.subset) {
    const auto num_validation = static_cast<int64_t>(options.validation_split * static_cast<double>(count));
    const bool training = *options.subset == Subset::training;
    order =
        training ? order.narrow(0, 0, count - num_validation) : order.narrow(0, count - num_validation, num_validation);
    if (options.verbose)
      std::cout << "Using " << order.numel() << " files for " << (training ? "training." : "validation.") << std::endl;
    if (order.numel() == 0)
      refuse(options, str("a validation_split of ", options.validation_split, " leaves none of ", count,
                          " files for this subset"));
  }
  return select(files, order);
}

Tensor encoded(const std::vector<int64_t>& labels, size_t num_classes, LabelMode mode) {
  const Tensor numbers = at::tensor(labels, at::kLong);
  switch (mode) {
    case LabelMode::int_: return numbers;
    case LabelMode::categorical: return at::eye(static_cast<int64_t>(num_classes), at::kFloat).index_select(0, numbers);
    case LabelMode::binary: return numbers.to(at::kFloat).unsqueeze(1);
  }
  throw Error(ErrorCode::internal, "LabelMode has no such value");
}

}  // namespace

LabeledDataset<std::tuple<Strings, Tensor>> files_of_classes(const std::filesystem::path& directory,
                                                             const ClassFolderOptions& options) {
  check(options);
  std::vector<std::string> names = class_names(directory, options);
  if (options.label_mode == LabelMode::binary && names.size() != 2)
    refuse(options, str("label_mode binary is for 2 classes; '", directory.string(), "' has ", names.size()));
  LabeledFiles files = subset_of(index(directory, names, options), options);
  const auto count = static_cast<int64_t>(files.paths.size());
  const Tensor labels = encoded(files.labels, names.size(), options.label_mode);
  auto dataset = from_tensor_slices(Strings(std::move(files.paths)), labels);
  if (options.shuffle) dataset = dataset.shuffle(count, {.seed = options.seed});
  return {std::move(dataset), std::move(names)};
}

std::string read_file(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorCode::not_found, str("there is no file '", path.string(), "'"));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::unavailable, str("cannot open '", path.string(), "'"));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tutti::data
