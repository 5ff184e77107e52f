#pragma once

#include <filesystem>

namespace tutti::keras::callbacks {

// Makes the folder, and those above it, unless it exists; "" is the working folder. Throws: unavailable where that
// fails, and where the folder does not let files be made in it; `callback` is named.
void make_writable_folder(const char* callback, const std::filesystem::path& folder);

}  // namespace tutti::keras::callbacks
