#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tutti/core/file_descriptor.h"

namespace tutti::testing_support {

struct HttpAnswer {
  int status = 0;  // 0: the connection ended without an answer
  std::string body = {};
  std::map<std::string, std::string> headers = {};
};

// A connection to a server on this host, which waits 20 s at most.
class HttpClient {
 public:
  explicit HttpClient(int port);

  HttpAnswer get(const std::string& path) { return request("GET", path, ""); }
  HttpAnswer post(const std::string& path, const std::string& body, const std::string& headers = "") {
    return request("POST", path, body, headers);
  }
  // `headers`: lines that end in \r\n.
  HttpAnswer request(const std::string& method, const std::string& path, const std::string& body,
                     const std::string& headers = "");
  // The bytes as they are; false where the other side has closed.
  bool send(std::string_view bytes);
  HttpAnswer receive();
  // All bytes up to this text, or to the end of the connection.
  std::string receive_until(std::string_view text);
  bool is_closed();
  bool is_closed_after_what_it_says();

 private:
  FileDescriptor socket_;
  std::string received_;
};

}  // namespace tutti::testing_support
