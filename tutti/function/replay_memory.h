#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace tutti {

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
