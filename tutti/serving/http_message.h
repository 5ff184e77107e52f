#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/error.h"

namespace tutti::serving {

struct HttpRequest {
  std::string method;                                        // "POST"
  std::string path;                                          // "/v1/models/flowers:predict", without the query
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  bool keeps_connection = true;

  // Its value; null where it is absent.
  const std::string* header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// As it goes over the wire.
std::string to_bytes(const HttpResponse& response, bool keeps_connection);
// {"error": "…"}
HttpResponse error_response(int status, std::string_view what);
// 400 for invalid_argument, 429 for resource_exhausted, and so on.
int http_status(ErrorCode code);

// A request that can't be taken, by the status that answers it.
class HttpError : public Error {
 public:
  HttpError(int status, const std::string& what) : Error(ErrorCode::invalid_argument, what), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

struct HttpLimits {
  size_t head_bytes = 16 << 10;
  size_t body_bytes = 64 << 20;
};

// Takes HTTP/1.1 requests (RFC 9112), chunked ones too, out of the bytes of a connection, one after the other. What is
// behind the last chunk is checked and left out. For bytes from anywhere:
// it keeps what it was given, and never more than the limits and what came in one piece.
class HttpParser {
 public:
  explicit HttpParser(HttpLimits limits) : limits_(limits) {}

  void add(std::string_view bytes) { buffer_ += bytes; }
  // The next request, once it is there whole. Throws: HttpError, after which nothing more can be read.
  std::optional<HttpRequest> next();
  // Whether the sender waits to be told that its body is welcome; true once for a request.
  bool take_expects_continue() { return std::exchange(expects_continue_, false); }
  size_t num_bytes() const { return buffer_.size() + (request_ ? request_->body.size() : 0); }
  // Whether a request has begun and is not there whole.
  bool is_within_request() const { return request_.has_value() || !buffer_.empty(); }

 private:
  void read_head(std::string_view head);
  void read_request_line(std::string_view line);
  void take_meaning();
  bool read_body();
  bool read_chunks();
  bool read_chunked(size_t& at, bool& is_over);
  void begin_chunk(std::string_view line);
  std::optional<std::string_view> take_line(size_t& at, size_t limit, int status) const;

  enum class Awaited { chunk_size, chunk_data, chunk_end, trailer };

  HttpLimits limits_;
  std::string buffer_;
  std::optional<HttpRequest> request_;  // whose head was read, and some of its chunks
  bool is_version_1_1_ = true;
  bool is_chunked_ = false;
  size_t body_bytes_ = 0;  // or of a chunk, those that are missing
  Awaited awaited_ = Awaited::chunk_size;
  size_t trailer_bytes_ = 0;
  bool expects_continue_ = false;
};

}  // namespace tutti::serving
