#pragma once

#include <optional>
#include <string>

// "host:port", as addresses of other processes are written, to what the network knows.
namespace tutti::rpc {

struct HostPort {
  std::string host;
  int port = 0;
};
// "node7:2222", "[::1]:2222", with a port from 0 to 65535; absent for what is no address.
std::optional<HostPort> find_host_port(const std::string& address);
// Throws: invalid_argument for what is none.
HostPort parse_host_port(const std::string& address);

// Whether it is a "unix:" or "unix-abstract:" address.
bool is_local(const std::string& address);

// "ipv4:10.0.0.7:2222", "ipv6:[::1]:2222". Throws: not_found for a host that nobody knows.
std::string resolve(const std::string& address);

// Whether every one of the host's addresses is the loopback's.
bool is_loopback(const std::string& host);

// This host's address on the way to that one, as it is written before a port: "10.0.0.3", "[fe80::1]". Throws as
// resolve(), and unavailable where there is no way.
std::string own_host_towards(const std::string& address);

// Throws, where nobody could listen there: already_exists for a port that is taken, not_found for a host that nobody
// knows, failed_precondition for an address of another host.
void check_can_listen(const std::string& address);

}  // namespace tutti::rpc
