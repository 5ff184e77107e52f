#include "tutti/data/match_files.h"

#include <glob.h>

#include <algorithm>
#include <memory>
#include <new>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {

std::vector<std::filesystem::path> match_files(const std::string& pattern) {
  if (pattern.empty()) throw Error(ErrorCode::invalid_argument, "match_files: the pattern is empty");
  glob_t found{};
  const int status = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  const std::unique_ptr<glob_t, void (*)(glob_t*)> owner(&found, globfree);
  if (status == GLOB_NOSPACE) throw std::bad_alloc();
  if (status == GLOB_ABORTED)
    throw Error(ErrorCode::unavailable, str("match_files: a folder of '", pattern, "' cannot be read"));
  std::vector<std::string> names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  std::erase_if(names, [](const std::string& name) {
    std::error_code unknown;
    return std::filesystem::is_directory(name, unknown);
  });
  if (names.empty()) throw Error(ErrorCode::not_found, str("match_files: no file matches '", pattern, "'"));
  std::ranges::sort(names);
  return {names.begin(), names.end()};
}

std::vector<std::filesystem::path> match_files(const std::vector<std::string>& patterns) {
  std::vector<std::filesystem::path> files;
  for (const std::string& pattern : patterns)
    for (auto& file : match_files(pattern)) files.push_back(std::move(file));
  return files;
}

Dataset<Strings> list_files(const std::string& pattern, const ListFilesOptions& options) {
  if (options.seed && !options.shuffle)
    throw Error(ErrorCode::invalid_argument, "list_files: a seed without shuffle = true does nothing");
  std::vector<std::string> names;
  for (const auto& file : match_files(pattern)) names.push_back(file.string());
  const auto count = static_cast<int64_t>(names.size());
  auto files = from_tensor_slices(Strings(std::move(names)));
  return options.shuffle ? files.shuffle(count, {.seed = options.seed}) : files;
}

}  // namespace tutti::data
