#pragma once

#include <filesystem>
#include <string>

#include "tutti/core/function_ref.h"

namespace tutti::files {

// Reads an archive (tar, zip and the like, compressed or not) from its beginning to its end: `visit` gets the path and
// the bytes of each regular file whose path is `wanted`. Nothing is written to disk. Throws: not_found, unavailable
// (cannot be opened), data_loss for a damaged one, or files of more than 2 GB in all.
void read_archive(const std::filesystem::path& archive, FunctionRef<bool(const std::string& path)> wanted,
                  FunctionRef<void(std::string path, std::string bytes)> visit);

}  // namespace tutti::files
