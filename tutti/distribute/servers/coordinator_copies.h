#pragma once

#include <cstdint>
#include <vector>

#include "tutti/distribute/servers/server_requests.h"

namespace tutti::servers {

// The coordinator's copies of all that servers keep. As long as no function is under way they are the value: they are
// read, written, saved and restored as any variables, and what was written goes to the servers before the next function
// begins. One thread.
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
  void pull_numbers(bool keeps_writes);
  void push_numbers();
  uint32_t checksum(int number) const;

  const ServedState& state_;
  ServerRequests requests_;
  KnownVersions known_;
  std::vector<uint32_t> checksums_;           // of the tensors, as they were brought
  std::vector<std::vector<double>> numbers_;  // of the optimizers
};

}  // namespace tutti::servers
