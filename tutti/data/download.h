#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace tutti::data {

// Where data sets that were fetched are kept: $XDG_CACHE_HOME/tutti, else $HOME/.cache/tutti. Throws:
// failed_precondition where neither variable is set.
std::filesystem::path download_folder();

struct DownloadOptions {
  std::string file_name = {};                // in the folder; empty: the last part of the url's path
  std::chrono::seconds connect_timeout{30};  // for a connection
  std::chrono::seconds stall_timeout{60};    // without a byte
  int num_attempts = 3;                      // a transfer that breaks off is resumed this often, less one
};

// Fetches a file over http or https into `folder`, which is made, and returns its path. What is there already and has
// the right hash is not fetched. The file appears under its name when it is whole and its SHA-256, 64 hexadecimal
// digits, is right; until then it is FILE.part, from which a later call goes on. On a terminal stderr shows the
// progress. Several threads or processes may ask for one file at once: one of them fetches it. Throws: not_found (the
// server has none), unavailable (no connection, broken off, refused), deadline_exceeded (a timeout), data_loss (another
// hash; what was fetched is removed), already_exists (another file has the name), invalid_argument for an url, hash or
// name that is none. Keras: keras.utils.get_file.
std::filesystem::path download(const std::string& url, const std::string& sha256, const std::filesystem::path& folder,
                               const DownloadOptions& options = {});

}  // namespace tutti::data
