#include "tutti/cluster/security.h"

#include <fstream>
#include <iterator>

#include "tutti/cluster/rpc/certificates.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::cluster {
namespace {

constexpr size_t kMinToken = 16, kMaxFile = size_t{1} << 20;
constexpr const char *kAuthority = "TUTTI_TLS_CA", *kCertificate = "TUTTI_TLS_CERTIFICATE", *kKey = "TUTTI_TLS_KEY";

std::string read_file(const char* variable, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFile, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(file ? kMaxFile : static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  if (text.empty() || text.size() == kMaxFile)
    throw Error(ErrorCode::failed_precondition,
                str(variable, " names ", path, ", which ",
                    text.empty() ? "cannot be read or is empty" : "is too long for what it should be"));
  return text;
}

std::string read_token(const std::string& path) {
  std::string token = read_file("TUTTI_TOKEN_FILE", path);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (token.size() < kMinToken)
    throw Error(ErrorCode::failed_precondition,
                str("the token in ", path, " has ", token.size(), " bytes, and one of less than ", kMinToken,
                    " can be guessed: `openssl rand -hex 32` makes a good one"));
  return token;
}

rpc::Credentials read_credentials(const Environment& environment) {
  for (const char* name : {kAuthority, kCertificate, kKey})
    if (!environment.has(name))
      throw Error(ErrorCode::failed_precondition, str(name, " is not set: certificates need ", kAuthority, ", ",
                                                      kCertificate, " and ", kKey, " together"));
  rpc::Credentials credentials{.authority = read_file(kAuthority, environment.text(kAuthority)),
                               .certificate = read_file(kCertificate, environment.text(kCertificate)),
                               .key = read_file(kKey, environment.text(kKey))};
  for (const auto& [variable, text] :
       {std::pair{kAuthority, &credentials.authority}, std::pair{kCertificate, &credentials.certificate}})
    if (const auto reason = rpc::reason_to_refuse(*text))
      throw Error(ErrorCode::failed_precondition, str("nobody will accept the certificate ", environment.text(variable),
                                                      " of ", variable, ": ", *reason));
  return credentials;
}

}  // namespace

Security Security::from_environment(const Environment& environment) {
  Security security;
  if (environment.has("TUTTI_TOKEN_FILE")) security.token = read_token(environment.text("TUTTI_TOKEN_FILE"));
  if (environment.has(kAuthority) || environment.has(kCertificate) || environment.has(kKey))
    security.credentials = read_credentials(environment);
  security.is_waived = environment.has("TUTTI_INSECURE") && environment.text("TUTTI_INSECURE") == "1";
  return security;
}

void require_security(const Security& security) {
  if (!security.is_empty() || security.is_waived) return;
  throw Error(ErrorCode::failed_precondition,
              "processes of several hosts meet over a network, where anybody could come: give every process the same "
              "token of 16 bytes or more in a file that TUTTI_TOKEN_FILE names (`openssl rand -hex 32 > token`), or "
              "certificates (`tutti certificates`); on a network where nobody else is, TUTTI_INSECURE=1 does without");
}

}  // namespace tutti::cluster
