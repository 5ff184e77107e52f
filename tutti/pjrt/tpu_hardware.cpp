#include "tutti/pjrt/tpu_hardware.h"

#include <algorithm>
#include <fstream>

namespace tutti::pjrt {
namespace {

struct Chip {
  const char* pci_device;
  const char* generation;
};
constexpr const char* kGoogle = "0x1ae0";
constexpr Chip kChips[] = {{"0x0027", "v3"},  {"0x0056", "unnamed"}, {"0x005e", "v4"},   {"0x0062", "v5p"},
                           {"0x0063", "v5e"}, {"0x006f", "v6e"},     {"0x0076", "tpu7x"}};

std::string first_word(const std::filesystem::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

}  // namespace

std::vector<std::string> find_tpu_chips(const std::filesystem::path& devices) {
  std::vector<std::string> found;
  std::error_code no_such_folder;
  for (const auto& device : std::filesystem::directory_iterator(devices, no_such_folder)) {
    if (first_word(device.path() / "vendor") != kGoogle) continue;
    const std::string id = first_word(device.path() / "device");
    const auto* chip =
        std::find_if(std::begin(kChips), std::end(kChips), [&](const Chip& c) { return id == c.pci_device; });
    if (chip != std::end(kChips)) found.emplace_back(chip->generation);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tutti::pjrt
