#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tutti/serving/http_message.h"
#include "tutti/serving/rpc/tls.h"

namespace tutti::serving {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address of this host; "0.0.0.0" for all
  int port = 0;                    // 0: one that is free
  HttpLimits limits = {};
  int max_connections = 1024;
  uint64_t max_bytes = 1 << 30;                       // of all requests that are here
  std::chrono::milliseconds receive_timeout{10'000};  // for a request to arrive, from its first byte on; and for
                                                      // a handshake of TLS
  std::chrono::milliseconds answer_timeout{60'000};   // for the handler
  std::chrono::milliseconds send_timeout{30'000};
  std::chrono::milliseconds idle_timeout{75'000};  // of a connection without a request
  TlsCredentials tls = {};                         // empty: plain HTTP
};

// Answers a request. May be called from any thread, later too; the first call counts. Where all copies go without a
// call, the answer is 500.
using Reply = std::function<void(HttpResponse response)>;

// Speaks HTTP/1.1, plain or in TLS alone, with any number of connections on one thread of its own. Every wait has a
// deadline.
class HttpServer {
 public:
  // Runs on the server's thread, and must not block it.
  using Handler = std::function<void(HttpRequest request, Reply reply)>;

  // Throws: invalid_argument for no address; unavailable where the port is taken; failed_precondition for credentials
  // that OpenSSL refuses.
  HttpServer(const HttpServerOptions& options, Handler handler);
  // stop() without grace.
  ~HttpServer();

  int port() const;
  // Takes no new connection, answers the requests that are under way and those that come on the connections there
  // within a second, and ends. False where some had no answer after `grace`.
  bool stop(std::chrono::milliseconds grace);
  // Ends the grace of a stop() on another thread.
  void hurry();

 private:
  class Loop;

  std::shared_ptr<Loop> loop_;
};

}  // namespace tutti::serving
