#pragma once

#include <filesystem>
#include <string>

namespace tutti {

struct OpenModule {
  void* library = nullptr;  // of dlopen()
  std::string place = {};
  std::string why_not = {};  // where there is none: "cannot be loaded: …"
};

// Loads a module of the library's, which programs have only where they ask for it. It stands where `named` says; where
// that is empty beside the program, in ../lib from there, or where the system looks.
OpenModule open_module(const std::string& file, const std::filesystem::path& named);

}  // namespace tutti
