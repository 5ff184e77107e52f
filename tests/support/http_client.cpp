#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <stdexcept>

namespace tutti::testing_support {

HttpClient::HttpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval limit{.tv_sec = 20, .tv_usec = 0};
  setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket_.number(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("no connection to port " + std::to_string(port));
}

HttpAnswer HttpClient::request(const std::string& method, const std::string& path, const std::string& body,
                               const std::string& headers) {
  const bool was_sent =
      send(method + ' ' + path + " HTTP/1.1\r\nHost: here\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           headers + "\r\n" + body);
  return was_sent ? receive() : HttpAnswer{};
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

HttpAnswer HttpClient::receive() {
  std::array<char, 65536> piece;
  size_t head_end = std::string::npos, length = 0;
  HttpAnswer answer;
  while (true) {
    if (head_end == std::string::npos && (head_end = received_.find("\r\n\r\n")) != std::string::npos) {
      answer.status = std::stoi(received_.substr(9, 3));
      if (answer.status == 100) {
        received_.erase(0, head_end + 4);
        head_end = std::string::npos;
        continue;
      }
      for (size_t at = received_.find("\r\n") + 2; at < head_end;) {
        const size_t colon = received_.find(": ", at), end = received_.find("\r\n", at);
        answer.headers[received_.substr(at, colon - at)] = received_.substr(colon + 2, end - colon - 2);
        at = end + 2;
      }
      length = std::stoul(answer.headers.at("Content-Length"));
    }
    if (head_end != std::string::npos && received_.size() >= head_end + 4 + length) break;
    const ssize_t got = recv(socket_.number(), piece.data(), piece.size(), 0);
    if (got <= 0) return {};
    received_.append(piece.data(), static_cast<size_t>(got));
  }
  answer.body = received_.substr(head_end + 4, length);
  received_.erase(0, head_end + 4 + length);
  return answer;
}

std::string HttpClient::receive_until(std::string_view text) {
  std::array<char, 4096> piece;
  while (received_.find(text) == std::string::npos) {
    const ssize_t got = recv(socket_.number(), piece.data(), piece.size(), 0);
    if (got <= 0) break;
    received_.append(piece.data(), static_cast<size_t>(got));
  }
  return received_;
}

bool HttpClient::is_closed_after_what_it_says() {
  std::array<char, 4096> piece;
  ssize_t got = 0;
  while ((got = recv(socket_.number(), piece.data(), piece.size(), 0)) > 0) {
  }
  return got == 0 || errno == ECONNRESET;
}

bool HttpClient::is_closed() {
  char byte = 0;
  return recv(socket_.number(), &byte, 1, 0) == 0;
}

}  // namespace tutti::testing_support
