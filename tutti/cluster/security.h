#pragma once

#include <string>

#include "tutti/cluster/environment.h"
#include "tutti/cluster/rpc/transport.h"

namespace tutti::cluster {

// How processes of several hosts know each other: by a token that all have, by certificates of one authority, or both.
// The token proves who may take part, and does not hide what is sent; certificates do both. A value.
struct Security {
  std::string token = {};
  rpc::Credentials credentials = {};
  bool is_waived = false;  // nobody needs to prove anything

  // TUTTI_TOKEN_FILE; TUTTI_TLS_CA, TUTTI_TLS_CERTIFICATE and TUTTI_TLS_KEY together; TUTTI_INSECURE=1. Throws:
  // failed_precondition for a file that cannot be read, a token of less than 16 bytes, a part of the certificates, and
  // certificates that do not hold now.
  static Security from_environment(const Environment& environment);
  bool is_empty() const { return token.empty() && credentials.is_empty(); }
};

// Throws: failed_precondition, with the ways out, for security that is empty and not waived.
void require_security(const Security& security);

}  // namespace tutti::cluster
