#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

// Certificates of a cluster: an authority, and one for each host. All texts are PEM.
namespace tutti::rpc {

struct KeyPair {
  std::string certificate, key;
};

// An authority that signs the certificates of `hosts`, in their order; each serves to dial and to be dialled. A host is
// a name or a numeric address; hosts may give several, with commas between. Throws: invalid_argument.
struct Certificates {
  KeyPair authority;
  std::vector<KeyPair> hosts;
};
Certificates make_certificates(const std::vector<std::string>& hosts, std::chrono::hours valid_for);

// Why nobody will accept this certificate now: it is no PEM text, its time is over or has not begun.
std::optional<std::string> reason_to_refuse(const std::string& certificate);

}  // namespace tutti::rpc
