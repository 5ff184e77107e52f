#include "tutti/function/call_place.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <stdio.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <source_location>
#include <sstream>
#include <string_view>

#include "tutti/core/str.h"

namespace tutti {
namespace {

// ".../tutti/", in which this source lies.
std::string_view own_folder() {
  const std::string_view file = std::source_location::current().file_name();
  return file.substr(0, file.size() - std::string_view("function/call_place.cpp").size());
}

bool is_users(std::string_view file) {
  const auto has = [&](std::string_view part) { return file.find(part) != std::string_view::npos; };
  if (file.empty() || file[0] == '?') return false;
  if (has(own_folder())) return file.ends_with("_test.cpp");
  const bool is_header = file.ends_with(".h");
  return !has("/include/") && !(is_header && (has("/tutti/") || file.starts_with("tutti/")));
}

// A place in the file of the program or of a library, for tools that read it.
struct CodeOffset {
  std::string file;
  uintptr_t offset;
};

// Of the call that returns to an address. Empty for what LibTorch and the system have, which is no user's.
CodeOffset offset_of(void* returns_to) {
  Dl_info object;
  link_map* map = nullptr;
  if (!dladdr1(returns_to, &object, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) || !object.dli_fname) return {};
  std::string file = object.dli_fname;
  const std::string_view name = std::string_view(file).substr(file.rfind('/') + 1);
  for (const char* const others : {"libtorch", "libc10", "libstdc++", "libc.so", "libgomp"})
    if (name.starts_with(others)) return {};
  std::error_code none;
  if (file[0] != '/') file = std::filesystem::read_symlink("/proc/self/exe", none).string();
  return {std::move(file), reinterpret_cast<uintptr_t>(returns_to) - map->l_addr - 1};
}

// What binutils' addr2line says, which also knows the calls that a compiler has drawn into one another: lines of
// "file:line", the innermost first. Empty without it.
std::string lines_of(const std::string& file, const std::vector<uintptr_t>& offsets) {
  if (file.find('\'') != std::string::npos) return {};
  std::ostringstream command;
  command << "addr2line -i -e '" << file << "' 2>/dev/null" << std::hex;
  for (const uintptr_t offset : offsets) command << " 0x" << offset;
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.str().c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> bytes;
  while (pipe) {
    const size_t count = fread(bytes.data(), 1, bytes.size(), pipe.get());
    if (count == 0) break;
    text.append(bytes.data(), count);
  }
  return text;
}

std::string users_line_in(std::string_view lines) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, std::min(lines.find('\n'), lines.size()));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    const size_t colon = line.rfind(':');
    if (colon == std::string_view::npos || !is_users(line.substr(0, colon))) continue;
    const std::string_view number = line.substr(colon + 1, line.find_first_not_of("0123456789", colon + 1) - colon - 1);
    if (number.empty() || number == "0") continue;
    return str(line.substr(line.rfind('/', colon) + 1, colon - line.rfind('/', colon) - 1), ':', number);
  }
  return {};
}

}  // namespace

CallPlace call_place() {
  std::array<void*, 96> addresses;
  const int count = backtrace(addresses.data(), addresses.size());
  return CallPlace(addresses.begin(), addresses.begin() + count);
}

std::string line_of(const CallPlace& place) {
  for (size_t i = 0; i < place.size();) {
    const CodeOffset first = offset_of(place[i]);
    std::vector<uintptr_t> offsets;
    for (CodeOffset next = first; i < place.size() && next.file == first.file;) {
      offsets.push_back(next.offset);
      if (++i < place.size()) next = offset_of(place[i]);
    }
    if (first.file.empty()) continue;
    if (std::string line = users_line_in(lines_of(first.file, offsets)); !line.empty()) return line;
  }
  return {};
}

}  // namespace tutti
