#include "tutti/tools/output_folder.h"

#include <system_error>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::tools {

void make_output_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::failed_precondition,
                str("the folder '", folder.string(), "' cannot be made: ", error.message()));
}

}  // namespace tutti::tools
