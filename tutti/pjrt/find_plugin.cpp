#include "tutti/pjrt/find_plugin.h"

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::pjrt {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariables[] = {"TUTTI_PJRT_PLUGIN", "TPU_LIBRARY_PATH"};

fs::path named_by(const char* variable, const cluster::Environment& environment) {
  fs::path path = environment.text(variable);
  if (!fs::is_regular_file(path))
    throw Error(ErrorCode::not_found,
                str(variable, " names \"", path.string(), "\", which is no file; correct it or unset it"));
  return path;
}

// The folder that holds bin/python3 and lib/python3.x of the python that a shell would start.
std::optional<fs::path> python_prefix(const cluster::Environment& environment) {
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (environment.has(variable)) return fs::path(environment.text(variable));
  if (!environment.has("PATH")) return std::nullopt;
  std::string_view folders = environment.text("PATH");
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    std::error_code ignored;
    const fs::path python = fs::path(folders.substr(0, end)) / "python3";
    if (fs::exists(python, ignored)) return python.parent_path().parent_path();
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return std::nullopt;
}

std::vector<fs::path> python_packages(const fs::path& prefix) {
  std::vector<fs::path> folders;
  std::error_code no_such_folder;
  for (const auto& entry : fs::directory_iterator(prefix / "lib", no_such_folder))
    if (entry.path().filename().string().starts_with("python3"))
      for (const char* packages : {"site-packages", "dist-packages"}) folders.push_back(entry.path() / packages);
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace

PluginSearch find_plugin(const cluster::Environment& environment, const fs::path& root) {
  PluginSearch search;
  for (const char* variable : kVariables) {
    search.looked_at.push_back(str(variable, environment.has(variable) ? "" : " (not set)"));
    if (environment.has(variable)) {
      search.found = named_by(variable, environment);
      return search;
    }
  }
  std::vector<fs::path> places;
  if (const auto prefix = python_prefix(environment))
    for (const fs::path& packages : python_packages(*prefix)) places.push_back(packages / "libtpu/libtpu.so");
  for (const char* folder : {"lib", "usr/lib", "usr/local/lib"}) places.push_back(root / folder / "libtpu.so");
  for (const fs::path& place : places) {
    search.looked_at.push_back(place.string());
    std::error_code ignored;
    if (!fs::is_regular_file(place, ignored)) continue;
    search.found = place;
    break;
  }
  return search;
}

}  // namespace tutti::pjrt
