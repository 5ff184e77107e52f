#include "tutti/data/event_file_writer.h"

#include <unistd.h>

#include <array>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {
namespace {

std::filesystem::path new_file_in(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::unavailable, str("cannot make the folder '", folder.string(), "': ", error.message()));
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  for (int number = 0;; ++number) {
    auto path = folder / str("events.out.tfevents.", static_cast<int64_t>(wall_time_now()), '.', host.data(), '.',
                             getpid(), '.', number, ".v2");
    if (!std::filesystem::exists(path)) return path;
  }
}

}  // namespace

EventFileWriter::EventFileWriter(const std::filesystem::path& folder) : path_(new_file_in(folder)), file_(path_) {
  file_.write(serialize_file_version());
  file_.flush();
}

}  // namespace tutti::data
