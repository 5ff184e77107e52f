#pragma once

#include <filesystem>

namespace tutti::tools {

// Makes the folder that a command is to write to, and those around it, where they are not there yet. Throws:
// failed_precondition, with the folder and why it cannot be made.
void make_output_folder(const std::filesystem::path& folder);

}  // namespace tutti::tools
