#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace tutti {

c10::DataPtr allocate_on(c10::Device device, int64_t bytes);
// A storage that has this memory.
c10::Storage storage_of(int64_t bytes, c10::DataPtr data);
// The first bytes of a storage, as a tensor without a graph or a count of versions.
at::Tensor bytes_on(const c10::Storage& storage, int64_t bytes);

// Memory for what replays need while they run. Those that run one after the other use one block, so that several
// recordings need no more than the largest of them. Threads: any.
class ReplayMemory {
 public:
  struct Block {
    c10::DataPtr data = {};
    int64_t bytes = 0;
  };

  // A block of at least so many bytes that nobody else uses, with any contents.
  Block take(int64_t bytes);
  void give_back(Block block);

 private:
  std::mutex mutex_;
  std::vector<Block> free_;
};

}  // namespace tutti
