#include "tutti/core/module.h"

#include <dlfcn.h>

#include <system_error>

#include "tutti/core/str.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

OpenModule open_at(const fs::path& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return {library, path.string(), library ? "" : str("cannot be loaded: ", dlerror())};
}

}  // namespace

OpenModule open_module(const std::string& file, const fs::path& named) {
  std::error_code ignored;
  if (!named.empty()) {
    if (fs::is_regular_file(named, ignored)) return open_at(fs::absolute(named));
    return {.why_not = str("is not where it is said to be: \"", named.string(), "\" is no file")};
  }
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path beside = folder.parent_path() / "lib";
  for (const fs::path& place : {folder, beside})
    if (fs::is_regular_file(place / file, ignored)) return open_at(place / file);
  OpenModule module = open_at(file);
  if (!module.library)
    module.why_not = str("is neither in ", folder.string(), " nor in ", beside.string(), ", and of the system's it ",
                         module.why_not);
  return module;
}

}  // namespace tutti
