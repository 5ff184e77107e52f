#pragma once

#include <string>
#include <vector>

#include "tutti/pjrt/client.h"
#include "tutti/pjrt/executable.h"

namespace tutti::pjrt {

// Devices by description, which need not be there: programs are compiled for them, and cannot run.
class TopologyDescription {
 public:
  // `name` is the plugin's: libtpu knows "v5e:4x4", "v4:2x2x1". Throws the plugin's error for one that it does not
  // know.
  TopologyDescription(const Plugin& plugin, const std::string& name, const NamedValues& options = {});
  ~TopologyDescription();
  TopologyDescription(const TopologyDescription&) = delete;
  TopologyDescription& operator=(const TopologyDescription&) = delete;

  std::vector<DeviceFacts> devices() const;
  Executable compile(const std::string& program, const CompileOptions& options) const;

 private:
  const Plugin& plugin_;
  abi::TopologyDescription* handle_ = nullptr;
};

}  // namespace tutti::pjrt
