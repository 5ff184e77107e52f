#include "tutti/collectives/mpi/load_mpi.h"

#include <dlfcn.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "TUTTI_MPI_MODULE";

// Takes an open library over.
const MpiModule& module_in(void* library, const std::string& place) {
  const auto entry = reinterpret_cast<const MpiModule* (*)()>(dlsym(library, kMpiModuleEntry));
  const MpiModule* const module = entry ? entry() : nullptr;
  if (!module)
    throw Error(ErrorCode::failed_precondition,
                str(place, " is no module for MPI: it has no function ", kMpiModuleEntry, "; name ", kMpiModuleFile));
  if (module->abi != kMpiModuleAbi)
    throw Error(ErrorCode::failed_precondition,
                str(place, " is of another version of the library (its interface is number ", module->abi,
                    ", this program's ", kMpiModuleAbi, "); name the one that was built with the library"));
  return *module;
}

const MpiModule& open_at(const fs::path& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error(ErrorCode::failed_precondition, str("the module for MPI cannot be loaded: ", dlerror()));
  return module_in(library, path.string());
}

const MpiModule& find_and_open(const cluster::Environment& environment) {
  if (environment.has(kVariable)) {
    const fs::path path = environment.text(kVariable);
    if (!fs::is_regular_file(path))
      throw Error(ErrorCode::not_found,
                  str(kVariable, " names \"", path.string(), "\", which is no file; correct it or unset it"));
    return open_at(fs::absolute(path));
  }
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& place : {folder, folder.parent_path() / "lib"})
    if (fs::is_regular_file(place / kMpiModuleFile, ignored)) return open_at(place / kMpiModuleFile);
  if (void* const library = dlopen(kMpiModuleFile, RTLD_NOW | RTLD_LOCAL)) return module_in(library, kMpiModuleFile);
  throw Error(ErrorCode::not_found,
              str("CommunicationImplementation::mpi needs the module ", kMpiModuleFile, ", which is built with the ",
                  "library where MPI's headers are (Debian: libopenmpi-dev): it is neither in ", folder.string(),
                  " nor in ", (folder.parent_path() / "lib").string(), ", and the system says: ", dlerror(),
                  "; name it by ", kVariable, ", or take CommunicationImplementation::ring"));
}

}  // namespace

const MpiModule& load_mpi(const cluster::Environment& environment) {
  static std::mutex mutex;
  static const MpiModule* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (!loaded) loaded = &find_and_open(environment);
  return *loaded;
}

int start_mpi(const MpiModule& mpi, int size) {
  int rank = 0, found = 0;
  if (const char* failure = mpi.start(&rank, &found))
    throw Error(ErrorCode::failed_precondition, str("MPI: ", failure));
  if (found != size)
    throw Error(ErrorCode::failed_precondition,
                str("MPI knows ", found, found == 1 ? " process" : " processes", ", and ", size,
                    " train together; start them all by one mpirun, that of ", mpi.built_with,
                    ", or take CommunicationImplementation::ring"));
  return rank;
}

void connect_mpi(const MpiModule& mpi, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  bool is_done = false;
  while (true) {
    if (const char* failure = mpi.connect(&is_done)) throw Error(ErrorCode::unavailable, str("MPI: ", failure));
    if (is_done) return;
    if (std::chrono::steady_clock::now() > deadline)
      throw Error(ErrorCode::deadline_exceeded,
                  str("not all processes of MPI have come together within ", timeout.count(), " ms"));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace tutti
