#include "tutti/collectives/nccl/library.h"

#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";

ErrorCode code_of(abi::Result result) {
  switch (result) {
    case abi::Result::system_error:
    case abi::Result::remote_error: return ErrorCode::unavailable;
    case abi::Result::timeout: return ErrorCode::deadline_exceeded;
    case abi::Result::unhandled_cuda_error:
    case abi::Result::invalid_usage: return ErrorCode::failed_precondition;
    default: return ErrorCode::internal;
  }
}

std::string path_of(const cluster::Environment& environment) {
  if (!environment.has(kLibraryVariable)) return kName;
  const std::filesystem::path path = environment.text(kLibraryVariable);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw Error(ErrorCode::not_found,
                str(kLibraryVariable, " names \"", path.string(), "\", which is no file; correct it or unset it"));
  return std::filesystem::canonical(path);
}

class Symbols {
 public:
  Symbols(void* library, const std::string& path) : library_(library), path_(path) {}

  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(dlsym(library_, name));
    if (!function)
      throw Error(ErrorCode::failed_precondition,
                  str(path_, " has no function ", name, ": it is no NCCL, or one before 2.14; name another by ",
                      kLibraryVariable));
  }

 private:
  void* const library_;
  const std::string& path_;
};

void* open(const std::string& path) {
  if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const std::string why = dlerror();
  if (path != kName) throw Error(ErrorCode::failed_precondition, str("NCCL cannot be loaded: ", why));
  throw Error(ErrorCode::not_found,
              str("NCCL is NVIDIA's library ", kName,
                  ", which a CUDA build of LibTorch brings, and the system says: ", why, "; name it by ",
                  kLibraryVariable, ", or do without (CommunicationImplementation::auto_, ReductionToOneDevice)"));
}

Library load_from(const std::string& path) {
  Library library{.path = path};
  const Symbols symbols(open(path), path);
  abi::Functions& call = library.call;
  symbols.find("ncclGetVersion", call.GetVersion);
  symbols.find("ncclGetErrorString", call.GetErrorString);
  symbols.find("ncclGetLastError", call.GetLastError);
  library.check(call.GetVersion(&library.version), "ncclGetVersion");
  if (library.version < abi::kOldestVersion)
    throw Error(ErrorCode::failed_precondition,
                str(path, " is NCCL ", version_text(library.version),
                    ", and 2.14 or newer is required; name another by ", kLibraryVariable));
  symbols.find("ncclGetUniqueId", call.GetUniqueId);
  symbols.find("ncclCommInitRankConfig", call.CommInitRankConfig);
  symbols.find("ncclCommFinalize", call.CommFinalize);
  symbols.find("ncclCommDestroy", call.CommDestroy);
  symbols.find("ncclCommAbort", call.CommAbort);
  symbols.find("ncclCommGetAsyncError", call.CommGetAsyncError);
  symbols.find("ncclAllReduce", call.AllReduce);
  symbols.find("ncclReduceScatter", call.ReduceScatter);
  symbols.find("ncclAllGather", call.AllGather);
  symbols.find("ncclBroadcast", call.Broadcast);
  symbols.find("ncclSend", call.Send);
  symbols.find("ncclRecv", call.Recv);
  symbols.find("ncclGroupStart", call.GroupStart);
  symbols.find("ncclGroupEnd", call.GroupEnd);
  symbols.find("ncclRedOpCreatePreMulSum", call.RedOpCreatePreMulSum);
  symbols.find("ncclRedOpDestroy", call.RedOpDestroy);
  return library;
}

}  // namespace

std::string version_text(int version) {
  const int major = version < 10000 ? 1000 : 10000;  // before 2.9, and since
  return str(version / major, '.', version % major / 100, '.', version % 100);
}

void Library::check(abi::Result result, const char* function, abi::Communicator* communicator) const {
  if (result == abi::Result::success || result == abi::Result::in_progress) return;
  const char *kind = call.GetErrorString(result), *last = call.GetLastError(communicator);
  throw Error(code_of(result),
              str("NCCL ", version_text(version), ", ", function, ": ", kind ? kind : "a failure without a name",
                  last && *last ? str(" (", last, ')') : "", "; NCCL_DEBUG=WARN lets it say more"));
}

const Library& load(const cluster::Environment& environment) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, std::unique_ptr<const Library>>();
  const std::string path = path_of(environment);
  const std::lock_guard lock(mutex);
  auto& library = loaded[path];
  if (!library) library = std::make_unique<const Library>(load_from(path));
  return *library;
}

}  // namespace tutti::nccl
