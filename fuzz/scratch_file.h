#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace tutti::fuzz {

// The bytes as a file, whose name stays the same in this process.
inline std::filesystem::path scratch_file(const uint8_t* bytes, size_t num_bytes) {
  static const auto path = std::filesystem::temp_directory_path() / ("tutti_fuzz_" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(num_bytes));
  return path;
}

}  // namespace tutti::fuzz
