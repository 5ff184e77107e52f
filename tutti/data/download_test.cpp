#include "tutti/data/download.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/synced_files.h"
#include "tests/support/temporary_folder.h"
#include "tutti/data/download_progress.h"
#include "tutti/data/sha256.h"

namespace tutti::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// An HTTP server on 127.0.0.1 with a thread of its own: each connection is one request, and what `answer` makes of its
// header is sent back.
class LocalServer {
 public:
  explicit LocalServer(std::function<std::string(const std::string& request)> answer)
      : answer_(std::move(answer)), socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(socket_, generic, size) != 0 || listen(socket_, 8) != 0 || getsockname(socket_, generic, &size) != 0)
      throw std::runtime_error("no local socket");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~LocalServer() {
    shutdown(socket_, SHUT_RDWR);
    thread_.join();
    close(socket_);
  }

  std::string url(const std::string& path) const { return str("http://127.0.0.1:", port_, path); }

  // The first bytes that were asked for, in order.
  std::vector<int64_t> offsets() {
    const std::scoped_lock lock(mutex_);
    return offsets_;
  }

 private:
  void serve() {
    for (int connection; (connection = accept(socket_, nullptr, nullptr)) >= 0; close(connection)) {
      std::string request;
      char byte = 0;
      while (!request.ends_with("\r\n\r\n") && recv(connection, &byte, 1, 0) == 1) request += byte;
      {
        const std::scoped_lock lock(mutex_);
        offsets_.push_back(offset_of(request));
      }
      const std::string reply = answer_(request);
      for (size_t sent = 0; sent < reply.size();) {
        const ssize_t count = send(connection, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) break;
        sent += static_cast<size_t>(count);
      }
    }
  }

 public:
  static int64_t offset_of(const std::string& request) {
    const std::string key = "Range: bytes=";
    const size_t at = request.find(key);
    int64_t offset = 0;
    if (at != request.npos) std::from_chars(request.data() + at + key.size(), request.data() + request.size(), offset);
    return offset;
  }

 private:
  std::function<std::string(const std::string&)> answer_;
  int socket_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<int64_t> offsets_;  // guarded by mutex_
  std::thread thread_;
};

std::string reply(const std::string& status, size_t length, const std::string& body, const std::string& more = "") {
  return str("HTTP/1.1 ", status, "\r\nContent-Length: ", length, "\r\nConnection: close\r\n", more, "\r\n", body);
}

// Serves `content` with ranges; at most max_bytes of it at once, then the connection breaks off.
std::string serve_range(const std::string& content, const std::string& request, size_t max_bytes = std::string::npos) {
  const auto offset = static_cast<size_t>(LocalServer::offset_of(request));
  if (offset >= content.size())
    return reply("416 Range Not Satisfiable", 0, "", str("Content-Range: bytes */", content.size(), "\r\n"));
  const std::string rest = content.substr(offset);
  if (offset == 0) return reply("200 OK", rest.size(), rest.substr(0, max_bytes));
  return reply("206 Partial Content", rest.size(), rest.substr(0, max_bytes),
               str("Content-Range: bytes ", offset, "-", content.size() - 1, "/", content.size(), "\r\n"));
}

std::string hash_of(const std::string& content) {
  Sha256 hash;
  hash.update(content.data(), content.size());
  return hash.finish();
}

class Download : public testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  const TemporaryFolder folder_;
  const std::string content_ = [] {
    std::string content;
    for (int i = 0; i < 50'000; ++i) content += str(i, ' ');
    return content;
  }();
  const std::string hash_ = hash_of(content_);
};

TEST_F(Download, FetchesAFileOnceAndChecksItsHash) {
  LocalServer server([&](const std::string& request) { return serve_range(content_, request); });
  const auto folder = folder_ / "made/here";
  const auto path = download(server.url("/data/numbers.txt?version=1"), hash_, folder);
  EXPECT_EQ(path, folder / "numbers.txt");
  EXPECT_EQ(folder_.read("made/here/numbers.txt"), content_);
  std::string upper = hash_;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  EXPECT_EQ(download(server.url("/data/numbers.txt"), upper, folder), path);
  EXPECT_EQ(server.offsets().size(), 1U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(Download, IsOnTheDiskWithItsName) {
  LocalServer server([&](const std::string& request) { return serve_range(content_, request); });
  const std::string folder = std::filesystem::canonical(folder_.path());
  std::vector<std::string> synced;
  synced_files = &synced;
  download(server.url("/x"), hash_, folder);
  synced_files = nullptr;
  EXPECT_THAT(synced, ElementsAre(folder + "/x.part", folder));
}

TEST_F(Download, GoesOnWhereATransferBrokeOff) {
  LocalServer server([&](const std::string& request) { return serve_range(content_, request, 120'000); });
  download(server.url("/x"), hash_, folder_.path());
  EXPECT_EQ(folder_.read("x"), content_);
  EXPECT_THAT(server.offsets(), ElementsAre(0, 120'000, 240'000));
}

TEST_F(Download, KeepsThePartThatALaterCallGoesOnFrom) {
  LocalServer server([&](const std::string& request) { return serve_range(content_, request, 120'000); });
  EXPECT_THAT(error_of([&] { download(server.url("/x"), hash_, folder_.path(), {.num_attempts = 2}); }),
              AllOf(StartsWith("unavailable: download: '" + server.url("/x")), HasSubstr("240000 bytes are in"),
                    HasSubstr("call again")));
  EXPECT_THAT(names(), ElementsAre("x.part"));
  download(server.url("/x"), hash_, folder_.path());
  EXPECT_THAT(names(), ElementsAre("x"));
  EXPECT_THAT(server.offsets(), ElementsAre(0, 120'000, 240'000));
}

TEST_F(Download, BeginsAnewWhereTheServerKnowsNoRanges) {
  folder_.write("x.part", "the beginning of something");
  LocalServer server([&](const std::string&) { return reply("200 OK", content_.size(), content_); });
  download(server.url("/x"), hash_, folder_.path());
  EXPECT_EQ(folder_.read("x"), content_);
}

TEST_F(Download, BeginsAnewWhereThePartIsOfAnotherFile) {
  LocalServer server([&](const std::string& request) { return serve_range(content_, request); });
  folder_.write("x.part", "the beginning of something else");
  download(server.url("/x"), hash_, folder_.path());
  EXPECT_EQ(folder_.read("x"), content_);
  folder_.write("y.part", content_ + content_);
  download(server.url("/y"), hash_, folder_.path());
  EXPECT_EQ(folder_.read("y"), content_);
  folder_.write("z.part", content_);  // whole, but not yet renamed
  download(server.url("/z"), hash_, folder_.path());
  EXPECT_THAT(names(), ElementsAre("x", "y", "z"));
}

TEST_F(Download, RemovesWhatHasAnotherHash) {
  LocalServer server([&](const std::string&) { return reply("200 OK", 5, "wrong"); });
  EXPECT_THAT(
      error_of([&] { download(server.url("/x"), hash_, folder_.path()); }),
      AllOf(StartsWith("data_loss: download: '" + server.url("/x")), HasSubstr(hash_of("wrong")), HasSubstr(hash_)));
  EXPECT_TRUE(names().empty());
}

TEST_F(Download, SaysWhatTheServerAnswers) {
  std::string status = "404 Not Found";
  LocalServer server([&](const std::string&) { return reply(status, 4, "page"); });
  const auto error = [&] { return error_of([&] { download(server.url("/x"), hash_, folder_.path()); }); };
  EXPECT_THAT(error(), AllOf(StartsWith("not_found: download: '" + server.url("/x")), HasSubstr("404")));
  status = "500 Internal Server Error";
  EXPECT_THAT(error(), AllOf(StartsWith("unavailable"), HasSubstr("500")));
  status = "302 Found\r\nLocation: file:///etc/hostname";
  EXPECT_THAT(error(), StartsWith("invalid_argument"));
  EXPECT_TRUE(names().empty());
}

TEST_F(Download, FollowsARedirection) {
  LocalServer target([&](const std::string& request) { return serve_range(content_, request); });
  LocalServer server([&](const std::string&) {
    return reply("302 Found", 0, "", str("Location: ", target.url("/elsewhere"), "\r\n"));
  });
  EXPECT_EQ(download(server.url("/x"), hash_, folder_.path()), folder_ / "x");
}

TEST_F(Download, GivesUpOnAServerThatIsSilentOrAway) {
  std::string url;
  {
    std::mutex silence;
    std::unique_lock lock(silence);
    LocalServer server([&](const std::string&) {
      const std::scoped_lock wait(silence);
      return std::string();
    });
    url = server.url("/x");
    EXPECT_THAT(error_of([&] {
                  download(url, hash_, folder_.path(), {.stall_timeout = std::chrono::seconds(1), .num_attempts = 1});
                }),
                StartsWith("deadline_exceeded: download: '" + url));
    lock.unlock();
  }
  EXPECT_THAT(error_of([&] { download(url, hash_, folder_.path()); }), StartsWith("unavailable: download: '" + url));
}

TEST_F(Download, OneOfSeveralThatAskAtOnceFetches) {
  LocalServer server([&](const std::string& request) { return serve_range(content_, request); });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { EXPECT_EQ(download(server.url("/x"), hash_, folder_.path()), folder_ / "x"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.offsets().size(), 1U);
  EXPECT_THAT(names(), ElementsAre("x"));
}

TEST_F(Download, LeavesAnotherFileOfTheNameAlone) {
  folder_.write("x", "mine");
  EXPECT_THAT(error_of([&] { download("http://127.0.0.1:1/x", hash_, folder_.path()); }),
              AllOf(StartsWith("already_exists"), HasSubstr(hash_of("mine"))));
  EXPECT_EQ(folder_.read("x"), "mine");
}

TEST_F(Download, RefusesWhatIsNoUrlHashOrName) {
  const auto error = [&](const std::string& url, const std::string& hash, const DownloadOptions& options = {}) {
    return error_of([&] { download(url, hash, folder_.path(), options); });
  };
  EXPECT_THAT(error("file:///etc/hostname", hash_), StartsWith("invalid_argument: download: 'file:"));
  EXPECT_THAT(error("http://127.0.0.1/", hash_), HasSubstr("no name for a file"));
  EXPECT_THAT(error("http://127.0.0.1", hash_), HasSubstr("no name for a file"));
  EXPECT_THAT(error("http://127.0.0.1/a/..", hash_), HasSubstr("'..' is no name"));
  EXPECT_THAT(error("http://127.0.0.1/x", hash_, {.file_name = "../x"}), HasSubstr("'../x' is no name"));
  EXPECT_THAT(error("http://127.0.0.1/x", "abc"), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(error("http://127.0.0.1/x", hash_, {.num_attempts = 0}), HasSubstr("at least 1"));
}

// Sets a variable of the environment, or takes it away, until the end of the block.
class EnvironmentGuard {
 public:
  EnvironmentGuard(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~EnvironmentGuard() { set(old_ ? old_->c_str() : nullptr); }
  EnvironmentGuard(const EnvironmentGuard&) = delete;
  EnvironmentGuard& operator=(const EnvironmentGuard&) = delete;

 private:
  void set(const char* value) {
    if (value)
      setenv(name_, value, 1);
    else
      unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> old_;
};

TEST(DownloadFolder, LiesInTheUsersCache) {
  const EnvironmentGuard home("HOME", "/home/ada");
  {
    const EnvironmentGuard cache("XDG_CACHE_HOME", "/caches");
    EXPECT_EQ(download_folder(), "/caches/tutti");
  }
  const EnvironmentGuard relative("XDG_CACHE_HOME", "caches");  // which the standard says to ignore
  EXPECT_EQ(download_folder(), "/home/ada/.cache/tutti");
  const EnvironmentGuard none("HOME", nullptr);
  EXPECT_THAT(error_of([] { download_folder(); }), HasSubstr("neither XDG_CACHE_HOME nor HOME"));
}

TEST(DownloadProgress, ShowsBarAmountAndSpeed) {
  const std::chrono::seconds two(2);
  EXPECT_EQ(progress_line("x.gz", 15'000'000, 30'000'000, two),
            "x.gz [===============>               ] 15.0 of 30.0 MB, 7.5 MB/s");
  EXPECT_EQ(progress_line("x.gz", 30'000'000, 30'000'000, two, 10'000'000),
            "x.gz [============================== ] 30.0 of 30.0 MB, 10.0 MB/s");
  EXPECT_EQ(progress_line("x.gz", 2'000'000, 0, two), "x.gz 2.0 MB, 1.0 MB/s");
}

}  // namespace
}  // namespace tutti::data
