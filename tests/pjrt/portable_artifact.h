#pragma once

#include <cstddef>

namespace tutti::pjrt {

// What the plugin of XLA's CPU client exports besides, as `portable_artifact`: a module of StableHLO in the binary form
// that a version, "0.9.0", and all later ones read. `take` gets its bytes, or where `failed` what is wrong with it.
using PortableArtifact = void (*)(const char* module, const char* version,
                                  void (*take)(void* user, bool failed, const char* bytes, size_t size), void* user);

}  // namespace tutti::pjrt
