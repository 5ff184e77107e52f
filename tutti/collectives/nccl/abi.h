#pragma once

#include <cstddef>
#include <cstdint>

// The part of NCCL's C interface that is used here, said in our own words, so that neither its header nor CUDA's is
// needed. Numbers and layouts are those of NCCL since 2.14, which has not changed any.
namespace tutti::nccl::abi {

constexpr int kOldestVersion = 21400;  // 2.14: communicators whose calls return at once

struct Communicator;   // opaque
using Stream = void*;  // a cudaStream_t

enum class Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
  timeout = 8,
};

enum class DataType : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  int64 = 4,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
};

using Reduction = int;
constexpr Reduction kSum = 0;

enum class Residence : int { device = 0, host = 1 };  // of a scalar

// Where the members of a communicator meet; passed by value.
struct UniqueId {
  char bytes[128];
};

// What a communicator is to be like; later members keep their defaults, as `version` says.
struct Config {
  size_t size = sizeof(Config);
  uint32_t magic = 0xcafebeef;
  uint32_t version = kOldestVersion;
  int blocking = 0;
};

// The functions, each by its name behind "nccl".
struct Functions {
  Result (*GetVersion)(int* version);
  Result (*GetUniqueId)(UniqueId* id);
  Result (*CommInitRankConfig)(Communicator** made, int size, UniqueId id, int rank, Config* config);
  Result (*CommFinalize)(Communicator*);
  Result (*CommDestroy)(Communicator*);
  Result (*CommAbort)(Communicator*);
  Result (*CommGetAsyncError)(Communicator*, Result* state);
  const char* (*GetErrorString)(Result);
  const char* (*GetLastError)(Communicator*);
  Result (*AllReduce)(const void* input, void* output, size_t count, DataType, Reduction, Communicator*, Stream);
  Result (*ReduceScatter)(const void* input, void* output, size_t count, DataType, Reduction, Communicator*, Stream);
  Result (*AllGather)(const void* input, void* output, size_t count, DataType, Communicator*, Stream);
  Result (*Broadcast)(const void* input, void* output, size_t count, DataType, int root, Communicator*, Stream);
  Result (*Send)(const void* input, size_t count, DataType, int peer, Communicator*, Stream);
  Result (*Recv)(void* output, size_t count, DataType, int peer, Communicator*, Stream);
  Result (*GroupStart)();
  Result (*GroupEnd)();
  Result (*RedOpCreatePreMulSum)(Reduction* made, void* scalar, DataType, Residence, Communicator*);
  Result (*RedOpDestroy)(Reduction, Communicator*);
};

}  // namespace tutti::nccl::abi
