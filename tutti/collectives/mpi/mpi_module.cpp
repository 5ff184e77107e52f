// The module libtutti_mpi.so: the one source that sees MPI.
#include "tutti/collectives/mpi/mpi_module.h"

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <thread>

namespace tutti {
namespace {

static_assert(MPI_VERSION >= 3, "nonblocking duplication of communicators is MPI 3's");
static_assert(sizeof(MPI_Request) <= sizeof(MpiRequest));

// Of the library that the headers belong to, which a library has to be that can take its place; empty: of one of those
// that share MPICH's interface of binaries, and say so.
#if defined(OMPI_MAJOR_VERSION)
const std::string kFamily = "Open MPI v" + std::to_string(OMPI_MAJOR_VERSION) + ".";
const std::string kBuiltWith = "Open MPI " + std::to_string(OMPI_MAJOR_VERSION) + "." +
                               std::to_string(OMPI_MINOR_VERSION) + "." + std::to_string(OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
const std::string kFamily;
const std::string kBuiltWith = "MPICH " MPICH_VERSION;
#else
const std::string kFamily;
const std::string kBuiltWith = "MPI " + std::to_string(MPI_VERSION) + "." + std::to_string(MPI_SUBVERSION);
#endif

constexpr auto kTimeToEnd = std::chrono::seconds(2);  // of a program whose processes have lost each other

MPI_Comm communicator = MPI_COMM_NULL;
MPI_Request duplication = MPI_REQUEST_NULL;
bool is_connected = false;
std::atomic<bool> has_given_up = false;
std::mutex calls;  // MPI is asked for MPI_THREAD_SERIALIZED

const char* keep(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.c_str();
}

// What a call of MPI has returned.
const char* failure_of(const char* call, int code) {
  if (code == MPI_SUCCESS) return nullptr;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return keep(std::string(call) + ": " + text);
}

MPI_Request load(const MpiRequest& request) {
  MPI_Request loaded = MPI_REQUEST_NULL;
  if (request != 0) std::memcpy(&loaded, &request, sizeof loaded);
  return loaded;
}

void store(MPI_Request request, MpiRequest* to) {
  *to = 0;
  if (request != MPI_REQUEST_NULL) std::memcpy(to, &request, sizeof request);
}

bool is_over() {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  return is_finalized != 0;
}

const char* kOver = "MPI_Finalize() was called, after which nothing can be sent; call it when no strategy is left";

// MPI_Finalize() waits for all processes and has no deadline, so they meet before.
void finish() {
  if (is_over()) return;
  int is_done = 0;
  MPI_Request meeting = MPI_REQUEST_NULL;
  const auto begin = std::chrono::steady_clock::now();
  if (is_connected && MPI_Ibarrier(communicator, &meeting) != MPI_SUCCESS) return;
  while (MPI_Test(&meeting, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_done == 0) {
    if (has_given_up && std::chrono::steady_clock::now() - begin > kTimeToEnd) return;  // mpirun ends the others
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (is_done != 0) MPI_Finalize();
}

const char* check_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0, version = 0, subversion = 0;
  MPI_Get_library_version(text, &length);
  MPI_Get_version(&version, &subversion);
  const std::string loaded(text, std::strcspn(text, ",\n"));
  if (version >= 3 && std::strncmp(text, kFamily.c_str(), kFamily.size()) == 0) return nullptr;
  return keep("the module was built with " + kBuiltWith + ", and the MPI that is loaded is " + loaded);
}

const char* start(int* rank, int* size) {
  const std::lock_guard lock(calls);
  if (is_over()) return kOver;
  if (const char* failure = check_library()) return failure;
  int is_initialized = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0) {
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_SERIALIZED)
      return "the program has started MPI for calls from one thread alone; have it call MPI_Init_thread with "
             "MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE, or leave MPI to the library";
  } else {
    if (const char* failure =
            failure_of("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level)))
      return failure;
    std::atexit(finish);
    if (level < MPI_THREAD_SERIALIZED)
      return "this MPI takes calls from one thread alone; MPI_THREAD_SERIALIZED is required";
  }
  if (const char* failure = failure_of("MPI_Comm_rank", MPI_Comm_rank(MPI_COMM_WORLD, rank))) return failure;
  return failure_of("MPI_Comm_size", MPI_Comm_size(MPI_COMM_WORLD, size));
}

const char* connect(bool* is_done) {
  const std::lock_guard lock(calls);
  if (is_over()) return kOver;
  *is_done = is_connected;
  if (is_connected) return nullptr;
  if (duplication == MPI_REQUEST_NULL)
    if (const char* failure = failure_of("MPI_Comm_idup", MPI_Comm_idup(MPI_COMM_WORLD, &communicator, &duplication)))
      return failure;
  int done = 0;
  if (const char* failure = failure_of("MPI_Comm_idup", MPI_Test(&duplication, &done, MPI_STATUS_IGNORE)))
    return failure;
  if (done == 0) return nullptr;
  *is_done = is_connected = true;
  return failure_of("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN));
}

const char* check_size(size_t size) {
  return size <= static_cast<size_t>(std::numeric_limits<int>::max()) ? nullptr : "a message is longer than MPI's are";
}

const char* send(int rank, int tag, const void* bytes, size_t size, MpiRequest* request) {
  const std::lock_guard lock(calls);
  if (is_over()) return kOver;
  if (const char* failure = check_size(size)) return failure;
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = MPI_Isend(bytes, static_cast<int>(size), MPI_BYTE, rank, tag, communicator, &made);
  store(made, request);
  return failure_of("MPI_Isend", code);
}

const char* receive(int rank, int tag, void* bytes, size_t room, MpiRequest* request) {
  const std::lock_guard lock(calls);
  if (is_over()) return kOver;
  if (const char* failure = check_size(room)) return failure;
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(bytes, static_cast<int>(room), MPI_BYTE, rank, tag, communicator, &made);
  store(made, request);
  return failure_of("MPI_Irecv", code);
}

const char* test(MpiRequest* request, bool* is_done, size_t* size) {
  const std::lock_guard lock(calls);
  *is_done = false;
  if (is_over()) return kOver;
  MPI_Request tested = load(*request);
  MPI_Status status = {};
  int done = 0, count = 0;
  const int code = MPI_Test(&tested, &done, &status);
  store(tested, request);
  if (const char* failure = failure_of("MPI_Test", code)) return failure;
  if (done != 0 && size) {
    MPI_Get_count(&status, MPI_BYTE, &count);
    *size = static_cast<size_t>(count);
  }
  *is_done = done != 0;
  return nullptr;
}

bool cancel(MpiRequest* request) {
  const std::lock_guard lock(calls);
  MPI_Request cancelled = load(*request);
  if (cancelled == MPI_REQUEST_NULL || is_over()) return true;
  int done = 0;
  MPI_Cancel(&cancelled);
  const int code = MPI_Test(&cancelled, &done, MPI_STATUS_IGNORE);
  store(cancelled, request);
  return code == MPI_SUCCESS && done != 0;
}

void give_up() { has_given_up = true; }

}  // namespace
}  // namespace tutti

extern "C" __attribute__((visibility("default"))) const tutti::MpiModule* tutti_mpi_module() {
  static const tutti::MpiModule module{.abi = tutti::kMpiModuleAbi,
                                       .built_with = tutti::kBuiltWith.c_str(),
                                       .start = tutti::start,
                                       .connect = tutti::connect,
                                       .send = tutti::send,
                                       .receive = tutti::receive,
                                       .test = tutti::test,
                                       .cancel = tutti::cancel,
                                       .give_up = tutti::give_up};
  return &module;
}
