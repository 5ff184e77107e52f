#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::pjrt {

// How a program is compiled: for so many replicas, each on the device of its number in `devices` (their ids; empty: the
// plugin chooses).
struct CompileOptions {
  int replicas = 1;
  std::vector<int64_t> devices = {};

  // As an xla.CompileOptionsProto. Throws: invalid_argument where the devices are not one for each replica.
  std::string serialize() const;
};

}  // namespace tutti::pjrt
