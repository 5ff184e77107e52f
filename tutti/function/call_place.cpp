#include "tutti/function/call_place.h"

#include <dlfcn.h>
#include <torch/csrc/profiler/unwind/unwind.h>

#include <algorithm>
#include <exception>
#include <source_location>
#include <string_view>

#include "tutti/core/str.h"

namespace tutti {
namespace {

// ".../tutti/", in which this source lies.
std::string_view own_folder() {
  const std::string_view file = std::source_location::current().file_name();
  return file.substr(0, file.size() - std::string_view("function/call_place.cpp").size());
}

// Where a frame has no debug information its file is the program or library itself.
bool is_source(std::string_view file) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  return name.find('.') != std::string_view::npos && name.find(".so") == std::string_view::npos;
}

bool is_users(std::string_view file) {
  if (!is_source(file)) return false;
  if (file.starts_with(own_folder())) return file.ends_with("_test.cpp");
  return std::ranges::none_of(std::initializer_list<const char*>{"/include/", "/c10/", "/aten/", "/torch/csrc/"},
                              [&](const char* part) { return file.find(part) != std::string_view::npos; });
}

// What LibTorch and the system have is no user's, and takes long to read.
bool is_in_program(void* address) {
  Dl_info object;
  if (!dladdr(address, &object) || !object.dli_fname) return false;
  const std::string_view path = object.dli_fname;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return !name.starts_with("libtorch") && !name.starts_with("libc10") && !name.starts_with("libstdc++") &&
         !name.starts_with("libc.so") && !name.starts_with("libgomp");
}

}  // namespace

CallPlace call_place() {
#if defined(__x86_64__) && defined(__linux__)
  try {
    return torch::unwind::unwind();
  } catch (const std::exception&) {  // code without tables for it: an error goes without its line
  }
#endif
  return {};
}

std::string line_of(const CallPlace& place) {
  CallPlace own;
  std::ranges::copy_if(place, std::back_inserter(own), is_in_program);
  if (own.empty()) return {};
  try {
    for (const auto& frame : torch::unwind::symbolize(own, torch::unwind::Mode::fast))
      if (is_users(frame.filename) && frame.lineno > 0)
        return str(std::string_view(frame.filename).substr(frame.filename.rfind('/') + 1), ':', frame.lineno);
  } catch (const std::exception&) {  // debug information that LibTorch cannot read
  }
  return {};
}

}  // namespace tutti
