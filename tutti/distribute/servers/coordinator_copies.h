#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/distribute/servers/server_requests.h"

namespace tutti::servers {

// The coordinator's copies of all that servers keep. As long as no function is under way they are the value: they are
// read, written, saved and restored as any variables, and what was written goes to the servers before the next function
// begins. Of a table that was updated row by row, the rows that have changed are brought alone. One thread.
class CoordinatorCopies {
 public:
  CoordinatorCopies(const ServedState& state, const std::vector<std::unique_ptr<Link>>& servers,
                    ServerRequests::Renew renew)
      : state_(state), requests_(servers, std::move(renew)) {}

  // Brings what has changed on the servers; where `keeps_writes`, not to what the program has written since it was
  // brought last.
  void pull(bool keeps_writes = false);
  // Takes what the program has written since then to the servers. Throws: ServerLost.
  void push_writes();

 private:
  bool was_written(int number) const;
  // Bytes of a tensor that have come.
  struct Part {
    size_t begin, count;
    const uint8_t* from;
  };
  static std::vector<Part> read_whole(const ServedState& state, int number, int server, ByteReader& reader);
  static std::vector<Part> read_rows(const ServedState& state, int number, int server, ByteReader& reader);
  void take(int number, std::span<const Part> parts);
  void pull_numbers(bool keeps_writes);
  void push_numbers();

  using Checksums = std::vector<uint32_t>;  // of each kBlockBytes

  const ServedState& state_;
  ServerRequests requests_;
  KnownVersions known_;
  std::vector<Checksums> checksums_;          // of the tensors, as they were brought; empty: it was not
  std::vector<std::vector<double>> numbers_;  // of the optimizers
};

}  // namespace tutti::servers
