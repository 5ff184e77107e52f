// Stands before a plugin whose libraries bring other versions of what the program links with: TensorFlow's wheel has a
// protobuf of its own with the names of Debian's. It loads them so that they find their own names first.
#include <dlfcn.h>

#include <cstdio>

#include "tests/pjrt/portable_artifact.h"

#define TUTTI_EXPORTED extern "C" __attribute__((visibility("default")))

// A name of the plugin behind; null where that cannot be loaded.
static void* behind(const char* name) {
  static void* const library = dlopen(TUTTI_PLUGIN_BEHIND, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (library) return dlsym(library, name);
  std::fprintf(stderr, "%s\n", dlerror());
  return nullptr;
}

TUTTI_EXPORTED const void* GetPjrtApi() {
  void* const function = behind("GetPjrtApi");
  return function ? reinterpret_cast<const void* (*)()>(function)() : nullptr;
}

TUTTI_EXPORTED void portable_artifact(const char* module, const char* version,
                                      void (*take)(void* user, bool failed, const char* bytes, size_t size),
                                      void* user) {
  if (void* const function = behind("portable_artifact"))
    reinterpret_cast<tutti::pjrt::PortableArtifact>(function)(module, version, take, user);
}
