#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tutti::testing_support {

// A connection in TLS to a server on this host, which waits 20 s at most.
class TlsClient {
 public:
  struct Options {
    std::string authority = {};              // PEM; the server must be "localhost" by it
    std::string certificate = {}, key = {};  // PEM; none: it has none
    int max_version = 0;                     // 0x0302: TLS 1.1; 0: any
  };
  TlsClient(int port, const Options& options);
  ~TlsClient();

  // Whether the handshake has come to a good end. Others may learn only later that theirs has not.
  bool is_open() const;
  int version() const;  // 0x0304: TLS 1.3
  // False where the other side has closed.
  bool send(std::string_view bytes);
  // What comes until the other side closes, or until it ends so.
  std::string receive(std::string_view end = {});
  // Sends a request for this path, which is the connection's last, and returns the answer's bytes.
  std::string get(const std::string& path);

 private:
  struct Parts;

  std::unique_ptr<Parts> parts_;
};

}  // namespace tutti::testing_support
