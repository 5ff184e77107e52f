// A library to be preloaded (LD_PRELOAD): the system gives this process no memory to share with others. Where
// REFUSED_MEMORY is "make" it cannot make any, where it is "open" it cannot open what another process has made.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string_view>

namespace {

bool refuses(std::string_view what) {
  const char* const refused = std::getenv("REFUSED_MEMORY");
  return refused && refused == what;
}

int refuse(int error) {
  errno = error;
  return -1;
}

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int memfd_create(const char* name, unsigned int flags) noexcept {
  if (refuses("make")) return refuse(EPERM);
  return next<int(const char*, unsigned int)>("memfd_create")(name, flags);
}

extern "C" int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  const std::string_view opened = path;
  if (refuses("open") && opened.starts_with("/proc/") && opened.find("/fd/") != opened.npos) return refuse(EACCES);
  return next<int(const char*, int, mode_t)>("open")(path, flags, mode);
}
