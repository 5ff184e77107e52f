#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "tutti/core/file_descriptor.h"

struct ssl_st;

namespace tutti::serving {

class TlsContext;

// The bytes of a connection that somebody made to this host, plain or in TLS. The socket does not block, nor does this.
class SocketStream {
 public:
  // With `tls`, no byte goes either way but in TLS. Throws: resource_exhausted.
  SocketStream(FileDescriptor socket, const TlsContext* tls);

  // That of the socket, for epoll.
  int number() const { return socket_.number(); }
  // Whether bytes can go both ways: the handshake, which receive() and send() go on with, is over.
  bool is_open() const;

  enum class State { moved, waits_to_receive, waits_to_send, ended };
  // num_bytes > 0 where bytes were moved. `waits_…` is what the socket must be ready for before the call is made again.
  struct Moved {
    State state;
    size_t num_bytes = 0;
  };
  Moved receive(std::span<char> to);
  // A call that waits must be made again with bytes that begin with the same.
  Moved send(std::string_view bytes);
  // Tells the other side that no more comes.
  void end_sending();

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  Moved moved_by_tls(int result) const;

  FileDescriptor socket_;
  std::unique_ptr<ssl_st, Free> ssl_;  // null: plain
};

}  // namespace tutti::serving
