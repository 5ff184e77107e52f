#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tutti::pjrt {

// The TPU chips that this host's PCI bus shows, by generation: "v5e", "v5e". It reads /sys and takes a millisecond.
std::vector<std::string> find_tpu_chips(const std::filesystem::path& devices = "/sys/bus/pci/devices");

}  // namespace tutti::pjrt
