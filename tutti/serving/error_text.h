#pragma once

#include <string>
#include <string_view>

namespace tutti::serving {

// An error as strangers may read it: UTF-8, with a '?' for what is none, and cut after `kMaxErrorBytes`.
inline constexpr size_t kMaxErrorBytes = 1024;
std::string error_text(std::string_view what);

}  // namespace tutti::serving
