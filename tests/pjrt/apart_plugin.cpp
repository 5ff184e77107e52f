// Stands before a plugin whose libraries bring other versions of what the program links with: TensorFlow's wheel has a
// protobuf of its own with the names of Debian's. It loads them so that they find their own names first.
#include <dlfcn.h>

#include <cstdio>

extern "C" __attribute__((visibility("default"))) const void* GetPjrtApi() {
  void* const library = dlopen(TUTTI_PLUGIN_BEHIND, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (!library) {
    std::fprintf(stderr, "%s\n", dlerror());
    return nullptr;
  }
  return reinterpret_cast<const void* (*)()>(dlsym(library, "GetPjrtApi"))();
}
