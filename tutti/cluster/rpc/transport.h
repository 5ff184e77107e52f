#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tutti/cluster/rpc/stream.h"

// Streams between processes, by gRPC. An address is "host:port", or for processes of one host "unix:/path" or
// "unix-abstract:name", which are no ports.
namespace tutti::rpc {

// PEM texts, all three or none. With them each side proves by its certificate that the authority knows it, and nobody
// between reads or changes anything.
struct Credentials {
  std::string authority = {}, certificate = {}, key = {};
  bool is_empty() const { return authority.empty(); }
};

// Opens a stream to whoever listens there; who that is, and whether anybody does, shows when something comes or the
// stream ends. Throws: unavailable for a host that nobody knows, invalid_argument for what is no address.
std::unique_ptr<Stream> connect(const std::string& address, const Credentials& credentials);

// Takes streams from others until it is destroyed; then they have ended.
class Server {
 public:
  // Is called for each stream by a thread of gRPC, which it must not hold up. Nobody is known by having connected.
  using OnStream = std::function<void(std::unique_ptr<Stream> stream)>;

  // Port 0 is any free one. Throws: already_exists for a port that is taken, not_found for a host that nobody knows,
  // failed_precondition for an address of another host, invalid_argument for credentials that are none.
  Server(const std::string& address, const Credentials& credentials, OnStream on_stream);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;  // 0 for an address without

 private:
  class Service;
  struct Listening;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Listening> listening_;
};

}  // namespace tutti::rpc
