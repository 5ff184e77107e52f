#include "tutti/keras/callbacks/writable_folder.h"

#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::keras::callbacks {

void make_writable_folder(const char* callback, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.empty() ? "." : folder;
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && !std::filesystem::is_directory(path)) error = std::make_error_code(std::errc::not_a_directory);
  if (!error && access(path.c_str(), W_OK | X_OK) != 0) error = std::error_code(errno, std::generic_category());
  if (error)
    throw Error(ErrorCode::unavailable,
                str(callback, ": cannot write into the folder '", path.string(), "': ", error.message()));
}

}  // namespace tutti::keras::callbacks
