#include "tutti/serving/http_message.h"

#include <algorithm>
#include <charconv>

#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/serving/error_text.h"

namespace tutti::serving {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return "Error";
  }
}

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

std::string_view without_space(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

}  // namespace

const std::string* HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (key == name) return &value;
  return nullptr;
}

std::string to_bytes(const HttpResponse& response, bool keeps_connection) {
  std::string bytes = "HTTP/1.1 " + std::to_string(response.status);
  bytes.reserve(response.body.size() + 256);
  bytes.append(" ").append(reason_of(response.status)).append("\r\nContent-Type: ").append(response.content_type);
  bytes.append("\r\nContent-Length: ").append(std::to_string(response.body.size()));
  for (const auto& [name, value] : response.headers) bytes.append("\r\n").append(name).append(": ").append(value);
  bytes.append(keeps_connection ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n");
  return bytes += response.body;
}

HttpResponse error_response(int status, std::string_view what) {
  return {.status = status, .body = "{\"error\": " + json_text(error_text(what)) + "}\n"};
}

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::failed_precondition:
    case ErrorCode::out_of_range:
    case ErrorCode::data_loss: return 400;  // what is damaged is the request
    case ErrorCode::not_found: return 404;
    case ErrorCode::already_exists: return 409;
    case ErrorCode::resource_exhausted: return 429;
    case ErrorCode::unimplemented: return 501;
    case ErrorCode::cancelled:
    case ErrorCode::unavailable: return 503;
    case ErrorCode::deadline_exceeded: return 504;
    case ErrorCode::internal: break;
  }
  return 500;
}

std::optional<HttpRequest> HttpParser::next() {
  if (!request_) {
    size_t empty_lines = 0;
    while (std::string_view(buffer_).substr(empty_lines).starts_with("\r\n")) empty_lines += 2;
    buffer_.erase(0, empty_lines);
    const size_t end = std::string_view(buffer_).substr(0, limits_.head_bytes).find("\r\n\r\n");
    if (end == std::string::npos) {
      if (buffer_.size() >= limits_.head_bytes)
        throw HttpError(431, str("the request's head has more than ", limits_.head_bytes, " bytes"));
      return std::nullopt;
    }
    request_.emplace();
    read_head(std::string_view(buffer_).substr(0, end));
    buffer_.erase(0, end + 4);
    take_meaning();
  }
  if (buffer_.size() < body_bytes_) return std::nullopt;
  expects_continue_ = false;
  HttpRequest request = std::move(*request_);
  request_.reset();
  if (buffer_.size() == body_bytes_) {
    request.body = std::exchange(buffer_, {});
  } else {
    request.body = buffer_.substr(0, body_bytes_);
    buffer_.erase(0, body_bytes_);
  }
  return request;
}

void HttpParser::read_head(std::string_view head) {
  bool is_first = true;
  while (true) {
    const size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    if (std::exchange(is_first, false))
      read_request_line(line);
    else
      read_header(line);
    if (end == std::string_view::npos) return;
    head.remove_prefix(end + 2);
  }
}

void HttpParser::read_request_line(std::string_view line) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) throw HttpError(400, "no HTTP request: METHOD PATH HTTP/1.1");
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  std::string_view target = line.substr(first + 1, last - first - 1);
  if (!version.starts_with("HTTP/")) throw HttpError(400, "no HTTP request: METHOD PATH HTTP/1.1");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") throw HttpError(505, "HTTP/1.1 and HTTP/1.0 are spoken here");
  is_version_1_1_ = version == "HTTP/1.1";
  const bool is_plain = std::ranges::all_of(target, [](char c) { return c > ' ' && c <= '~'; });
  if (!is_token(method) || !target.starts_with('/') || !is_plain)
    throw HttpError(400, "the request's first line is no METHOD PATH HTTP/1.1");
  request_->method = method;
  request_->path = target.substr(0, target.find('?'));
}

void HttpParser::read_header(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    throw HttpError(400, "a header is NAME: VALUE, on one line");
  const std::string_view value = without_space(line.substr(colon + 1));
  if (std::ranges::any_of(value, [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f; }))
    throw HttpError(400, "a header has a control character");
  request_->headers.emplace_back(lower_case(line.substr(0, colon)), std::string(value));
}

// What the headers say of the body and the connection. Two that disagree would let a request hide in another.
void HttpParser::take_meaning() {
  const auto only = [&](std::string_view name) -> const std::string* {
    const auto count =
        std::ranges::count_if(request_->headers, [&](const auto& header) { return header.first == name; });
    if (count > 1) throw HttpError(400, str("the header ", name, " comes twice"));
    return request_->header(name);
  };
  if (is_version_1_1_ && !only("host")) throw HttpError(400, "the header Host is missing");
  if (request_->header("transfer-encoding"))
    throw HttpError(501, "Transfer-Encoding is not read here; send a Content-Length");
  if (request_->header("content-encoding"))
    throw HttpError(415, "Content-Encoding is not read here; send the body as it is");
  body_bytes_ = 0;
  if (const std::string* const length = only("content-length")) {
    const auto [end, error] = std::from_chars(length->data(), length->data() + length->size(), body_bytes_);
    const bool is_number = length->find_first_not_of("0123456789") == std::string::npos && !length->empty();
    if (!is_number) throw HttpError(400, "Content-Length is no number");
    if (error != std::errc() || body_bytes_ > limits_.body_bytes)
      throw HttpError(413, str("the body has ", *length, " bytes; ", limits_.body_bytes, " are allowed"));
  }
  const std::string* const connection = request_->header("connection");
  const std::string wish = connection ? lower_case(*connection) : "";
  request_->keeps_connection = is_version_1_1_ ? wish != "close" : wish == "keep-alive";
  if (const std::string* const expected = only("expect")) {
    if (lower_case(*expected) != "100-continue") throw HttpError(417, "only 100-continue can be expected");
    expects_continue_ = body_bytes_ > 0;
  }
}

}  // namespace tutti::serving
