#pragma once

#include <string>

#include "tutti/cluster/environment.h"
#include "tutti/collectives/nccl/abi.h"

namespace tutti::nccl {

// "2.29.7" of 22907.
std::string version_text(int version);

// NCCL, which stays for the life of the process once it is loaded. Threads: any number may call.
struct Library {
  std::string path;
  int version = 0;  // 22907: 2.29.7
  abi::Functions call;

  // Throws what a function has failed with, behind its name: unavailable for a peer or a network that is lost,
  // failed_precondition for a GPU that cannot be used, and for calls that NCCL refuses. Success and in_progress are no
  // failures. The communicator may be null.
  void check(abi::Result result, const char* function, abi::Communicator* communicator = nullptr) const;
};

// Names a library to be taken, and no other.
constexpr const char* kLibraryVariable = "TUTTI_NCCL_LIBRARY";

// The library that TUTTI_NCCL_LIBRARY names, a file, else the libnccl.so.2 that a CUDA build of LibTorch has brought or
// that the system finds. Throws: not_found where there is none; failed_precondition for what cannot be loaded, lacks a
// function, or is older than NCCL 2.14. A failed attempt may be repeated.
const Library& load(const cluster::Environment& environment = cluster::Environment::of_process());

}  // namespace tutti::nccl
