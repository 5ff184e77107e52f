#include "tutti/serving/rpc/socket_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>

#include "tutti/core/error.h"
#include "tutti/serving/rpc/tls.h"

namespace tutti::serving {
namespace {

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

ssize_t receive_bytes(int socket, char* to, size_t size) {
  ssize_t length = 0;
  while ((length = recv(socket, to, size, 0)) < 0 && errno == EINTR) {
  }
  return length;
}

// OpenSSL's own sockets raise SIGPIPE where the other side has gone.
ssize_t send_bytes(int socket, const char* bytes, size_t size) {
  ssize_t length = 0;
  while ((length = ::send(socket, bytes, size, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return length;
}

int socket_of(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

// The socket as OpenSSL sees it.
const BIO_METHOD* socket_method() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tutti socket");
    BIO_meth_set_read(made, [](BIO* bio, char* to, int size) {
      BIO_clear_retry_flags(bio);
      const ssize_t length = receive_bytes(socket_of(bio), to, static_cast<size_t>(size));
      if (length < 0 && would_block()) BIO_set_retry_read(bio);
      return static_cast<int>(length);
    });
    BIO_meth_set_write(made, [](BIO* bio, const char* bytes, int size) {
      BIO_clear_retry_flags(bio);
      const ssize_t length = send_bytes(socket_of(bio), bytes, static_cast<size_t>(size));
      if (length < 0 && would_block()) BIO_set_retry_write(bio);
      return static_cast<int>(length);
    });
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long { return command == BIO_CTRL_FLUSH ? 1 : 0; });
    return made;
  }();
  return method;
}

int bounded(size_t size) { return static_cast<int>(std::min<size_t>(size, std::numeric_limits<int>::max())); }

}  // namespace

void SocketStream::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

SocketStream::SocketStream(FileDescriptor socket, const TlsContext* tls) : socket_(std::move(socket)) {
  if (!tls) return;
  ssl_.reset(SSL_new(tls->get()));
  BIO* const bio = BIO_new(socket_method());
  if (!ssl_ || !bio) throw Error(ErrorCode::resource_exhausted, "serving: TLS: no memory for a connection");
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket_.number())));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_accept_state(ssl_.get());
}

bool SocketStream::is_open() const { return !ssl_ || SSL_is_init_finished(ssl_.get()) == 1; }

SocketStream::Moved SocketStream::receive(std::span<char> to) {
  if (ssl_) {
    ERR_clear_error();
    return moved_by_tls(SSL_read(ssl_.get(), to.data(), bounded(to.size())));
  }
  const ssize_t length = receive_bytes(number(), to.data(), to.size());
  if (length > 0) return {State::moved, static_cast<size_t>(length)};
  return {length < 0 && would_block() ? State::waits_to_receive : State::ended};
}

SocketStream::Moved SocketStream::send(std::string_view bytes) {
  if (ssl_) {
    ERR_clear_error();
    return moved_by_tls(SSL_write(ssl_.get(), bytes.data(), bounded(bytes.size())));
  }
  const ssize_t length = send_bytes(number(), bytes.data(), bytes.size());
  if (length >= 0) return {State::moved, static_cast<size_t>(length)};
  return {would_block() ? State::waits_to_send : State::ended};
}

SocketStream::Moved SocketStream::moved_by_tls(int result) const {
  if (result > 0) return {State::moved, static_cast<size_t>(result)};
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ: return {State::waits_to_receive};
    case SSL_ERROR_WANT_WRITE: return {State::waits_to_send};
    default: ERR_clear_error(); return {State::ended};
  }
}

void SocketStream::end_sending() {
  if (ssl_ && is_open()) SSL_shutdown(ssl_.get());
  ERR_clear_error();
  shutdown(number(), SHUT_WR);
}

}  // namespace tutti::serving
