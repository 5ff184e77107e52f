#include "tutti/serving/rpc/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "tutti/cluster/rpc/certificates.h"
#include "tutti/core/error.h"
#include "tutti/core/releaser.h"
#include "tutti/core/str.h"

namespace tutti::serving {
namespace {

namespace fs = std::filesystem;

using Key = std::unique_ptr<EVP_PKEY, Releaser<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Releaser<X509_free>>;
using Text = std::unique_ptr<BIO, Releaser<BIO_free_all>>;

constexpr size_t kMaxFileBytes = 1 << 20;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::failed_precondition, str("serving: TLS: ", what));
}

// What OpenSSL has to say of its last failure.
std::string reason() {
  const char* const text = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return text ? text : "unknown reason";
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() == 0)
    throw Error(ErrorCode::not_found, str("serving: TLS: '", path.string(), "' can't be read, or is empty",
                                          file.is_open() ? "" : str(": ", std::strerror(errno))));
  if (file) refuse(str("'", path.string(), "' is too long for what it should be"));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// A group may read it, as it does secrets that Kubernetes mounts for it.
void check_is_private(const fs::path& path) {
  struct stat seen {};
  if (stat(path.c_str(), &seen) != 0 || (seen.st_mode & (S_IWGRP | S_IRWXO)) == 0) return;
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", seen.st_mode & 07777U);
  refuse(str("the key '", path.string(), "' can be read by anybody or changed by others (its mode is ", mode,
             "); chmod 600 ends that"));
}

Text text_of(const std::string& pem) { return Text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

std::vector<Certificate> certificates_of(const std::string& pem) {
  const Text text = text_of(pem);
  std::vector<Certificate> certificates;
  while (X509* const read = PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)) certificates.emplace_back(read);
  ERR_clear_error();  // which says that there are no more
  return certificates;
}

Key key_of(const std::string& pem) {
  const Text text = text_of(pem);
  const auto no_passphrase = [](char*, int, int, void*) { return -1; };  // instead of asking at the terminal
  return Key(PEM_read_bio_PrivateKey(text.get(), nullptr, no_passphrase, nullptr));
}

void check_holds_now(const fs::path& path, const std::string& certificate) {
  if (const auto why = rpc::reason_to_refuse(certificate))
    refuse(str("nobody will accept the certificate '", path.string(), "': ", *why));
}

}  // namespace

TlsCredentials read_tls_files(const fs::path& certificate, const fs::path& key, const fs::path& client_authority) {
  if (certificate.empty() && key.empty() && client_authority.empty()) return {};
  if (certificate.empty() || key.empty())
    throw Error(ErrorCode::invalid_argument, "serving: TLS needs a certificate and its key; one of them is not given");
  TlsCredentials credentials{.certificate = read_file(certificate), .key = read_file(key)};
  check_is_private(key);
  check_holds_now(certificate, credentials.certificate);
  const Key read_key = key_of(credentials.key);
  if (!read_key) refuse(str("'", key.string(), "' is no private key in PEM form without a passphrase: ", reason()));
  if (X509_check_private_key(certificates_of(credentials.certificate).at(0).get(), read_key.get()) != 1)
    refuse(str("the key '", key.string(), "' is not that of the certificate '", certificate.string(), "': ", reason()));
  if (!client_authority.empty()) {
    credentials.client_authority = read_file(client_authority);
    check_holds_now(client_authority, credentials.client_authority);
  }
  return credentials;
}

void TlsContext::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

TlsContext::TlsContext(const TlsCredentials& credentials) : context_(SSL_CTX_new(TLS_server_method())) {
  const auto require = [](bool is_well, const char* what) {
    if (!is_well) refuse(str(what, ": ", reason()));
  };
  SSL_CTX* const context = context_.get();
  require(context != nullptr, "OpenSSL can't be used");
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  constexpr unsigned char kSessions[] = "tutti serve";
  require(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
              SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
              SSL_CTX_set_session_id_context(context, kSessions, sizeof kSessions - 1) == 1,
          "OpenSSL refuses what TLS 1.2 needs");
  std::vector<Certificate> chain = certificates_of(credentials.certificate);
  const Key key = key_of(credentials.key);
  require(!chain.empty() && SSL_CTX_use_certificate(context, chain[0].get()) == 1, "the certificate is refused");
  for (size_t i = 1; i < chain.size(); ++i)
    require(SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1, "a certificate behind the first is refused");
  require(key && SSL_CTX_use_PrivateKey(context, key.get()) == 1, "the key is refused");
  if (credentials.client_authority.empty()) return;
  for (const Certificate& authority : certificates_of(credentials.client_authority))
    require(X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) == 1 &&
                SSL_CTX_add_client_CA(context, authority.get()) == 1,
            "an authority of clients is refused");
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

}  // namespace tutti::serving
