#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tutti/cluster/rpc/bell.h"
#include "tutti/core/file_descriptor.h"

namespace tutti::rpc {

// Which processes can open each other's memory: those of one running system, one user, and one table of processes have
// the same place.
std::string place_of_process();

// Memory that the two ends of a connection have in common: a ring of bytes for each way. It is an anonymous file, there
// as long as one of them has it. Whatever one end reads here the other one wrote.
class SharedMemory {
 public:
  static constexpr uint64_t kRingBytes = uint64_t{1} << 20;

  struct Ring {
    std::atomic<uint64_t>& head;            // bytes that were written, ever
    std::atomic<uint64_t>& origin;          // of these, the first that lies at the start
    std::atomic<uint64_t>& tail;            // bytes that were read, and are free to be written to
    std::atomic<uint32_t>& waits_for_room;  // who writes
    std::byte* bytes;                       // kRingBytes, and the same once more: what lies in a row is in one piece
  };

  // Throws: resource_exhausted.
  static std::unique_ptr<SharedMemory> create();
  // What another process has made, and told by offer(), once. Null: that process is of another place. Throws: data_loss
  // for what is no offer, failed_precondition where there is no such memory, or none that can be opened.
  static std::unique_ptr<SharedMemory> open(const std::string& offer);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::string offer() const;
  void close_file() { file_.reset(); }  // once the other process has opened it

  // What end 0, which made it, sleeps on, and end 1.
  Bell& bell(int end) const;
  Ring ring_from(int end) const;

 private:
  SharedMemory(FileDescriptor file, std::string key);

  FileDescriptor file_;
  std::string key_;
  std::byte* data_ = nullptr;
};

}  // namespace tutti::rpc
