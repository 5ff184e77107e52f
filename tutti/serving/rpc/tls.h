#pragma once

#include <filesystem>
#include <memory>
#include <string>

struct ssl_ctx_st;

namespace tutti::serving {

// What a server proves itself with, as PEM texts.
struct TlsCredentials {
  std::string certificate = {};  // its own, and behind it those that lead to an authority
  std::string key = {};
  std::string client_authority = {};  // whose certificates clients must have; empty: they need none

  bool is_empty() const { return certificate.empty(); }
};

// Reads and checks them; a client_authority of "" is none. Throws, with the file's name: invalid_argument for one of
// two files without the other; not_found for a file that can't be read; failed_precondition for a key that others can
// read or change, or that is not the certificate's, for a certificate that does not hold now, and for what is none.
TlsCredentials read_tls_files(const std::filesystem::path& certificate, const std::filesystem::path& key,
                              const std::filesystem::path& client_authority);

// What the connections of a server share: TLS 1.2 and 1.3, with forward secrecy.
class TlsContext {
 public:
  // Throws: failed_precondition for credentials that OpenSSL refuses.
  explicit TlsContext(const TlsCredentials& credentials);

  ssl_ctx_st* get() const { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

}  // namespace tutti::serving
