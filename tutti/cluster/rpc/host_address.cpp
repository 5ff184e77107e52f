#include "tutti/cluster/rpc/host_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "tutti/core/error.h"
#include "tutti/core/file_descriptor.h"
#include "tutti/core/str.h"

namespace tutti::rpc {
namespace {

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses look_up(const HostPort& place) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int failure = getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &found);
  if (failure != 0)
    throw Error(ErrorCode::not_found, str("the host '", place.host, "' is not known here (", gai_strerror(failure),
                                          "): correct its name, or wait until the name server knows it"));
  return {found, freeaddrinfo};
}

std::string numeric_host(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST];
  return getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0 ? host : "";
}

bool is_loopback_address(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// Somebody who listens at a path would be replaced in silence.
void check_path_is_free(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path)
    throw Error(ErrorCode::invalid_argument,
                str("the path of a socket is longer than ", sizeof address.sun_path - 1, " bytes: ", path));
  path.copy(address.sun_path, path.size());
  const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(probe.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    throw Error(ErrorCode::already_exists,
                str("another process listens at ", path, " already: is this task started twice, or still running?"));
}

}  // namespace

std::optional<HostPort> find_host_port(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {};
  HostPort place{.host = address.substr(0, colon)};
  const char *begin = address.data() + colon + 1, *end = address.data() + address.size();
  const auto [rest, error] = std::from_chars(begin, end, place.port);
  if (error != std::errc() || rest != end || place.port < 0 || place.port > 65'535) return {};
  const bool is_bracketed = place.host.starts_with('[') && place.host.ends_with(']');
  if (is_bracketed) place.host = place.host.substr(1, place.host.size() - 2);
  const bool is_visible = std::ranges::all_of(place.host, [](char c) { return c > ' ' && c < '\x7f'; });
  if (place.host.empty() || !is_visible || (!is_bracketed && place.host.find(':') != std::string::npos)) return {};
  return place;
}

HostPort parse_host_port(const std::string& address) {
  if (const auto place = find_host_port(address)) return *place;
  throw Error(ErrorCode::invalid_argument,
              str("'", address, "' is no address: one is host:port, such as node7:2222 or [fe80::1]:2222"));
}

bool is_local(const std::string& address) {
  return address.starts_with("unix:") || address.starts_with("unix-abstract:");
}

std::string resolve(const std::string& address) {
  if (is_local(address)) return address;
  const HostPort place = parse_host_port(address);
  const Addresses found = look_up(place);
  const std::string host = numeric_host(found->ai_addr, found->ai_addrlen);
  return found->ai_family == AF_INET6 ? str("ipv6:[", host, "]:", place.port) : str("ipv4:", host, ':', place.port);
}

bool is_loopback(const std::string& host) {
  const Addresses found = look_up({host, 0});
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next)
    if (!is_loopback_address(each->ai_addr)) return false;
  return true;
}

std::string own_host_towards(const std::string& address) {
  const Addresses found = look_up(parse_host_port(address));
  const FileDescriptor probe(socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (connect(probe.number(), found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(probe.number(), reinterpret_cast<sockaddr*>(&own), &length) != 0)
    throw Error(ErrorCode::unavailable, str("there is no way from this host to ", address, ": ", std::strerror(errno)));
  const std::string host = numeric_host(reinterpret_cast<const sockaddr*>(&own), length);
  return found->ai_family == AF_INET6 ? str('[', host, ']') : host;
}

void check_can_listen(const std::string& address) {
  if (address.starts_with("unix:")) return check_path_is_free(address.substr(5));
  if (is_local(address)) return;
  const Addresses found = look_up(parse_host_port(address));
  const FileDescriptor probe(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(probe.number(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(probe.number(), found->ai_addr, found->ai_addrlen) == 0) {
    if (listen(probe.number(), 1) == 0) return;
  }
  if (errno == EADDRINUSE)
    throw Error(ErrorCode::already_exists, str("the port of ", address,
                                               " is taken by another process: end that one, or give this task another "
                                               "port (`ss -ltnp` tells who listens)"));
  if (errno == EADDRNOTAVAIL)
    throw Error(ErrorCode::failed_precondition, str("this host has no address of ", address,
                                                    ": is the task started on the wrong host, or the "
                                                    "address that of a gateway?"));
  throw Error(ErrorCode::failed_precondition, str("cannot listen at ", address, ": ", std::strerror(errno)));
}

}  // namespace tutti::rpc
