#include "tutti/data/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/download_progress.h"
#include "tutti/data/sha256.h"
#include "tutti/files/sync.h"

namespace tutti::data {
namespace {

using Clock = std::chrono::steady_clock;

// The file of what was fetched so far, open for this object alone: others that ask for it wait.
class PartFile {
 public:
  explicit PartFile(std::filesystem::path path) : path_(std::move(path)) {
    while (!open()) close(file_);
  }
  ~PartFile() { close(file_); }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return size_; }

  void append(const char* bytes, size_t count) {
    while (count > 0) {
      const ssize_t written = pwrite(file_, bytes, count, size_);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("write");
      bytes += written;
      size_ += written;
      count -= static_cast<size_t>(written);
    }
  }
  void clear() {
    if (ftruncate(file_, 0) != 0) fail("clear");
    size_ = 0;
  }
  void remove() { unlink(path_.c_str()); }
  // Gives the file its name; both are on the disk then.
  void rename(const std::filesystem::path& name) {
    if (fsync(file_) != 0) fail("write");
    if (::rename(path_.c_str(), name.c_str()) != 0) fail("rename");
    files::sync_folder(files::folder_of(name));
  }

 private:
  // False if the file was renamed or removed by the one that had it.
  bool open() {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file_ < 0) fail("open");
    while (flock(file_, LOCK_EX) != 0)
      if (errno != EINTR) fail("lock");
    struct stat own {
    }, named{};
    if (fstat(file_, &own) != 0) fail("read");
    size_ = own.st_size;
    return stat(path_.c_str(), &named) == 0 && named.st_ino == own.st_ino && named.st_dev == own.st_dev;
  }

  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorCode::unavailable,
                str("download: cannot ", what, " '", path_.string(), "': ", std::strerror(errno)));
  }

  std::filesystem::path path_;
  int file_ = -1;
  int64_t size_ = 0;
};

std::string sha256_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(1 << 20);
  Sha256 hash;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0)
    hash.update(block.data(), static_cast<size_t>(file.gcount()));
  return hash.finish();
}

// What one request came to.
struct Outcome {
  CURLcode code = CURLE_OK;
  long status = 0;  // of HTTP
  std::string message = {};
};

// One request for what the part lacks.
class Transfer {
 public:
  Transfer(const std::string& url, PartFile& part, const DownloadOptions& options, ProgressLine* progress)
      : part_(part), offset_(part.size()), progress_(progress), curl_(curl_easy_init(), curl_easy_cleanup) {
    if (!curl_) throw std::bad_alloc();
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, "tutti");
    set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options.connect_timeout.count()));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_timeout.count()));
    set(CURLOPT_ERRORBUFFER, message_);
    set(CURLOPT_WRITEFUNCTION, &Transfer::on_bytes);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, progress ? 0L : 1L);
    set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    if (offset_ > 0) set(CURLOPT_RANGE, str(offset_, '-').c_str());
  }

  Outcome run() {
    Outcome outcome;
    outcome.code = curl_easy_perform(curl_.get());
    if (failure_) std::rethrow_exception(failure_);
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &outcome.status);
    outcome.message = message_[0] != '\0' ? message_ : curl_easy_strerror(outcome.code);
    return outcome;
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    if (curl_easy_setopt(curl_.get(), option, value) != CURLE_OK)
      throw Error(ErrorCode::internal, str("download: libcurl does not take option ", int{option}));
  }

  static size_t on_bytes(char* bytes, size_t, size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    try {
      if (!transfer.begun_) transfer.begin();
      transfer.part_.append(bytes, count);
      return count;
    } catch (...) {
      transfer.failure_ = std::current_exception();
      return 0;
    }
  }

  // A server that knows no ranges sends the file from its beginning.
  void begin() {
    begun_ = true;
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    if (offset_ == 0 || status == 206) return;
    part_.clear();
    offset_ = 0;
  }

  static int on_progress(void* self, curl_off_t total, curl_off_t done, curl_off_t, curl_off_t) {
    const auto& transfer = *static_cast<Transfer*>(self);
    transfer.progress_->show(transfer.offset_ + done, total > 0 ? transfer.offset_ + total : 0);
    return 0;
  }

  PartFile& part_;
  int64_t offset_;
  ProgressLine* progress_;
  bool begun_ = false;
  std::exception_ptr failure_;
  char message_[CURL_ERROR_SIZE] = {};
  std::unique_ptr<CURL, void (*)(CURL*)> curl_;
};

bool may_be_resumed(CURLcode code) {
  return code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING ||
         code == CURLE_OPERATION_TIMEDOUT || code == CURLE_HTTP2_STREAM;
}

[[noreturn]] void fail(const std::string& url, const Outcome& outcome, PartFile& part) {
  const bool refused = outcome.code == CURLE_HTTP_RETURNED_ERROR;
  const ErrorCode code = refused && (outcome.status == 404 || outcome.status == 410) ? ErrorCode::not_found
                         : outcome.code == CURLE_OPERATION_TIMEDOUT                  ? ErrorCode::deadline_exceeded
                         : outcome.code == CURLE_URL_MALFORMAT || outcome.code == CURLE_UNSUPPORTED_PROTOCOL
                             ? ErrorCode::invalid_argument
                             : ErrorCode::unavailable;
  const std::string kept =
      part.size() > 0 ? str("; ", part.size(), " bytes are in '", part.path().string(), "', call again to go on") : "";
  if (part.size() == 0) part.remove();
  throw Error(code, str("download: '", url, "': ", outcome.message, kept));
}

std::string checked_hash(std::string sha256) {
  for (char& c : sha256) c = static_cast<char>(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
  if (sha256.size() != 64 || sha256.find_first_not_of("0123456789abcdef") != sha256.npos)
    throw Error(ErrorCode::invalid_argument,
                str("download: the SHA-256 is '", sha256, "'; 64 hexadecimal digits are required"));
  return sha256;
}

std::string file_name(const std::string& url, const DownloadOptions& options) {
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    throw Error(ErrorCode::invalid_argument, str("download: '", url, "' is no url of http:// or https://"));
  const std::string path = url.substr(0, url.find_first_of("?#"));
  const size_t slash = path.rfind('/');
  const std::string last = slash > std::strlen("https://") ? path.substr(slash + 1) : "";
  const std::string name = options.file_name.empty() ? last : options.file_name;
  if (name.empty() || name == "." || name == ".." || name.find('/') != name.npos)
    throw Error(ErrorCode::invalid_argument, str("download: '", name, "' is no name for a file; set file_name"));
  return name;
}

// Whether the file is there, with this hash.
bool is_there(const std::filesystem::path& file, const std::string& sha256) {
  if (!std::filesystem::exists(file)) return false;
  const std::string found = sha256_of(file);
  if (found != sha256)
    throw Error(ErrorCode::already_exists, str("download: '", file.string(), "' is there with another SHA-256, ", found,
                                               " instead of ", sha256, "; remove it, or set another file_name"));
  return true;
}

void fetch(const std::string& url, const std::string& sha256, PartFile& part, const DownloadOptions& options,
           ProgressLine* progress) {
  for (int attempt = 1;; ++attempt) {
    const bool last = attempt >= options.num_attempts;
    const bool resumed = part.size() > 0;
    const Outcome outcome = Transfer(url, part, options, progress).run();
    // 416: nothing is behind what is there already, and all of it may be right.
    const bool complete = outcome.code == CURLE_OK || (resumed && outcome.status == 416);
    if (!complete) {
      if (last || !may_be_resumed(outcome.code)) fail(url, outcome, part);
      continue;
    }
    const std::string found = sha256_of(part.path());
    if (found == sha256) return;
    if (resumed && !last) {  // the beginning may be of another file
      part.clear();
      continue;
    }
    const int64_t size = part.size();
    part.remove();
    throw Error(ErrorCode::data_loss, str("download: '", url, "': the ", size, " bytes have the SHA-256 ", found,
                                          " instead of ", sha256, "; the file was removed"));
  }
}

}  // namespace

std::filesystem::path download_folder() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::filesystem::path(text ? text : "");
  };
  if (const auto cache = value("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "tutti";
  if (const auto home = value("HOME"); home.is_absolute()) return home / ".cache" / "tutti";
  throw Error(
      ErrorCode::failed_precondition,
      "download_folder: neither XDG_CACHE_HOME nor HOME is set to an absolute path; name a folder for the data");
}

std::filesystem::path download(const std::string& url, const std::string& sha256, const std::filesystem::path& folder,
                               const DownloadOptions& options) {
  const std::string hash = checked_hash(sha256);
  const std::filesystem::path file = folder / file_name(url, options);
  if (options.num_attempts < 1 || options.connect_timeout.count() < 1 || options.stall_timeout.count() < 1)
    throw Error(ErrorCode::invalid_argument, "download: num_attempts and timeouts must be at least 1");
  if (is_there(file, hash)) return file;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::unavailable, str("download: cannot make '", folder.string(), "': ", error.message()));

  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialized != CURLE_OK) throw Error(ErrorCode::unavailable, "download: libcurl cannot be initialized");
  PartFile part(file.string() + ".part");
  if (is_there(file, hash)) {  // another one fetched it while this one waited
    part.remove();
    return file;
  }
  const auto progress =
      isatty(STDERR_FILENO) != 0 ? std::make_unique<ProgressLine>(file.filename().string(), std::cerr) : nullptr;
  fetch(url, hash, part, options, progress.get());
  part.rename(file);
  return file;
}

}  // namespace tutti::data
