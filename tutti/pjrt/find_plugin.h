#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tutti/cluster/environment.h"

namespace tutti::pjrt {

// Where a plugin was looked for, in this order, and the first that is there.
struct PluginSearch {
  std::vector<std::string> looked_at;  // "TPU_LIBRARY_PATH (not set)", "/lib/libtpu.so"
  std::optional<std::filesystem::path> found;
};

// TUTTI_PJRT_PLUGIN, of any device; for TPUs TPU_LIBRARY_PATH, libtpu of the active python (VIRTUAL_ENV, CONDA_PREFIX,
// or the python3 of PATH, without running it), and then the folders of the system below `root`. Throws: not_found for a
// variable that names no file; it is not passed over.
PluginSearch find_plugin(const cluster::Environment& environment = cluster::Environment::of_process(),
                         const std::filesystem::path& root = "/");

}  // namespace tutti::pjrt
