#include "tutti/cluster/rpc/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <vector>

#include "tutti/core/error.h"

namespace tutti::rpc {

Digest random_nonce() {
  Digest nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size()))
    throw Error(ErrorCode::internal, "the kernel gives no random bytes");
  return nonce;
}

Digest prove(std::string_view token, std::string_view who, std::span<const uint8_t> said) {
  std::vector<uint8_t> bytes(who.begin(), who.end());
  bytes.push_back(0);
  bytes.insert(bytes.end(), said.begin(), said.end());
  Digest digest;
  unsigned size = 0;
  if (HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()), bytes.data(), bytes.size(), digest.data(),
           &size) == nullptr ||
      size != digest.size())
    throw Error(ErrorCode::internal, "HMAC-SHA256 could not be computed");
  return digest;
}

bool are_equal(const Digest& one, const Digest& other) {
  return CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

}  // namespace tutti::rpc
