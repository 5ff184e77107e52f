#include "tests/support/tls_client.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <csignal>
#include <stdexcept>

#include "tutti/core/file_descriptor.h"
#include "tutti/core/releaser.h"

namespace tutti::testing_support {
namespace {

using Key = std::unique_ptr<EVP_PKEY, Releaser<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Releaser<X509_free>>;
using Text = std::unique_ptr<BIO, Releaser<BIO_free_all>>;

Text text_of(const std::string& pem) { return Text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

Certificate certificate_of(const std::string& pem) {
  return Certificate(PEM_read_bio_X509(text_of(pem).get(), nullptr, nullptr, nullptr));
}

SSL_CTX* context_of(const TlsClient::Options& options) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_security_level(context, options.max_version == 0 ? 2 : 0);  // old versions need a low one
  SSL_CTX_set_min_proto_version(context, TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context, options.max_version);
  if (!options.authority.empty()) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate_of(options.authority).get());
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  if (!options.certificate.empty()) {
    const Key key(PEM_read_bio_PrivateKey(text_of(options.key).get(), nullptr, nullptr, nullptr));
    SSL_CTX_use_certificate(context, certificate_of(options.certificate).get());
    SSL_CTX_use_PrivateKey(context, key.get());
  }
  return context;
}

}  // namespace

struct TlsClient::Parts {
  FileDescriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  SSL_CTX* context = nullptr;
  SSL* ssl = nullptr;
  bool is_open = false;
};

TlsClient::TlsClient(int port, const Options& options) : parts_(std::make_unique<Parts>()) {
  std::signal(SIGPIPE, SIG_IGN);  // which OpenSSL's sockets raise
  const timeval limit{.tv_sec = 20, .tv_usec = 0};
  const int socket = parts_->socket.number();
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("no connection to port " + std::to_string(port));
  parts_->context = context_of(options);
  parts_->ssl = SSL_new(parts_->context);
  SSL_set_fd(parts_->ssl, socket);
  SSL_set1_host(parts_->ssl, "localhost");
  parts_->is_open = SSL_connect(parts_->ssl) == 1;
}

TlsClient::~TlsClient() {
  SSL_free(parts_->ssl);
  SSL_CTX_free(parts_->context);
}

bool TlsClient::is_open() const { return parts_->is_open; }

int TlsClient::version() const { return SSL_version(parts_->ssl); }

bool TlsClient::send(std::string_view bytes) {
  return SSL_write(parts_->ssl, bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
}

std::string TlsClient::receive(std::string_view end) {
  std::array<char, 16384> piece;
  std::string got;
  while (end.empty() || !got.ends_with(end)) {
    const int length = SSL_read(parts_->ssl, piece.data(), static_cast<int>(piece.size()));
    if (length <= 0) break;
    got.append(piece.data(), static_cast<size_t>(length));
  }
  return got;
}

std::string TlsClient::get(const std::string& path) {
  if (!send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")) return "";
  return receive();
}

}  // namespace tutti::testing_support
