#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "tests/pjrt/portable_artifact.h"

namespace tutti::pjrt {

// A module in the binary form that a version of StableHLO and all later ones read, by the plugin of XLA's CPU client.
// Throws std::runtime_error with what is wrong with the module.
inline std::string portable_artifact(const char* plugin, const std::string& module, const char* version) {
  struct Artifact {
    bool failed = true;
    std::string bytes = "it cannot be loaded";
  } artifact;
  void* const library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  if (void* const function = library ? dlsym(library, "portable_artifact") : nullptr)
    reinterpret_cast<PortableArtifact>(function)(
        module.c_str(), version,
        [](void* user, bool failed, const char* bytes, size_t size) {
          *static_cast<Artifact*>(user) = {failed, std::string(bytes, size)};
        },
        &artifact);
  if (artifact.failed) throw std::runtime_error(plugin + (": " + artifact.bytes));
  return artifact.bytes;
}

}  // namespace tutti::pjrt
