#include "tutti/collectives/mpi/load_mpi.h"

#include <dlfcn.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "tutti/core/error.h"
#include "tutti/core/module.h"
#include "tutti/core/str.h"

namespace tutti {
namespace {

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

const MpiModule& find_and_open(const cluster::Environment& environment) {
  const std::filesystem::path named = environment.has(kVariable) ? environment.text(kVariable) : "";
  if (!named.empty() && !std::filesystem::is_regular_file(named))
    throw Error(ErrorCode::not_found,
                str(kVariable, " names \"", named.string(), "\", which is no file; correct it or unset it"));
  const OpenModule module = open_module(kMpiModuleFile, named);
  if (module.library) return module_in(module.library, module.place);
  if (!named.empty()) throw Error(ErrorCode::failed_precondition, str("the module for MPI ", module.why_not));
  throw Error(ErrorCode::not_found,
              str("CommunicationImplementation::mpi needs the module ", kMpiModuleFile, ", which is built with the ",
                  "library where MPI's headers are (Debian: libopenmpi-dev): it ", module.why_not, "; name it by ",
                  kVariable, ", or take CommunicationImplementation::ring"));
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
