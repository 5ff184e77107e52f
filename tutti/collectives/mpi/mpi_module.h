#pragma once

#include <cstddef>
#include <cstdint>

// What the module libtutti_mpi.so does for the library, which itself neither includes nor links MPI: functions on plain
// types. It is built where MPI's headers are, and loaded when a program asks for MPI.
namespace tutti {

// A message on its way, opaque; 0 when it is done.
using MpiRequest = uint64_t;

// Texts say why a call failed, until the calling thread's next one; null where it did not. Nothing blocks but start().
// Any thread may call them; the module makes one call of MPI at a time.
struct MpiModule {
  uint32_t abi;            // kMpiModuleAbi, or it is another interface
  const char* built_with;  // "Open MPI 4.1.4"

  // Starts MPI unless the program has, and gives this process's place in MPI_COMM_WORLD. All processes call it. What it
  // has started it ends when the program does.
  const char* (*start)(int* rank, int* size);
  // Begins to make a communicator of all processes, which no message of the program's own meets; then tells whether it
  // is there. All processes call it until it is.
  const char* (*connect)(bool* is_done);
  const char* (*send)(int rank, int tag, const void* bytes, size_t size, MpiRequest* request);
  // Of the next message from there with this tag; one that is longer than its room is a failure.
  const char* (*receive)(int rank, int tag, void* bytes, size_t room, MpiRequest* request);
  // Whether it is done, and how long a message that came is.
  const char* (*test)(MpiRequest* request, bool* is_done, size_t* size);
  // Takes a receive back. Returns whether its memory is free; else the message is on its way into it.
  bool (*cancel)(MpiRequest* request);
  // From now on the end of the program waits for the others for 2 s and no longer.
  void (*give_up)();
};

constexpr uint32_t kMpiModuleAbi = 1;
constexpr const char* kMpiModuleFile = "libtutti_mpi.so";
constexpr const char* kMpiModuleEntry = "tutti_mpi_module";  // extern "C" const MpiModule* ()

}  // namespace tutti
