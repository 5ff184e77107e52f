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

bool has_control_character(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f; });
}

std::pair<std::string, std::string> header_of(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    throw HttpError(400, "a header is NAME: VALUE, on one line");
  const std::string_view value = without_space(line.substr(colon + 1));
  if (has_control_character(value)) throw HttpError(400, "a header has a control character");
  return {lower_case(line.substr(0, colon)), std::string(value)};
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
  if (!read_body()) return std::nullopt;
  expects_continue_ = false;
  return std::exchange(request_, std::nullopt);
}

// Whether it is there whole.
bool HttpParser::read_body() {
  if (is_chunked_) return read_chunks();
  if (buffer_.size() < body_bytes_) return false;
  if (buffer_.size() == body_bytes_) {
    request_->body = std::exchange(buffer_, {});
  } else {
    request_->body = buffer_.substr(0, body_bytes_);
    buffer_.erase(0, body_bytes_);
  }
  return true;
}

// Takes the chunks that are there; whether the last one was among them.
bool HttpParser::read_chunks() {
  size_t at = 0;  // of the buffer; what is before it was read
  bool is_over = false;
  while (read_chunked(at, is_over)) {
  }
  buffer_.erase(0, at);
  return is_over;
}

// One line, or what is there of a chunk's bytes. False at the end of the body, and of what is there.
bool HttpParser::read_chunked(size_t& at, bool& is_over) {
  switch (awaited_) {
    case Awaited::chunk_size: {
      constexpr size_t kMaxLine = 256;
      const auto line = take_line(at, kMaxLine, 400);
      if (line) begin_chunk(*line);
      return line.has_value();
    }
    case Awaited::chunk_data: {
      const size_t count = std::min(body_bytes_, buffer_.size() - at);
      request_->body.append(buffer_, at, count);
      at += count, body_bytes_ -= count;
      if (body_bytes_ == 0) awaited_ = Awaited::chunk_end;
      return body_bytes_ == 0;
    }
    case Awaited::chunk_end:
      if (buffer_.size() - at < 2) return false;
      if (std::string_view(buffer_).substr(at, 2) != "\r\n")
        throw HttpError(400, "a chunk has more bytes than it says");
      at += 2, awaited_ = Awaited::chunk_size;
      return true;
    case Awaited::trailer: {
      const auto line = take_line(at, limits_.head_bytes - trailer_bytes_, 431);
      if (!line) return false;
      trailer_bytes_ += line->size() + 2;
      is_over = line->empty();
      if (!is_over) header_of(*line);
      return !is_over;
    }
  }
  return false;
}

// Without its end; nothing where that is not there yet.
std::optional<std::string_view> HttpParser::take_line(size_t& at, size_t limit, int status) const {
  const std::string_view rest = std::string_view(buffer_).substr(at), line = rest.substr(0, limit);
  const size_t end = line.find("\r\n");
  if (end == std::string_view::npos && rest.size() >= limit)
    throw HttpError(status, "a line of a chunked body is too long");
  if (end == std::string_view::npos) return std::nullopt;
  at += end + 2;
  return line.substr(0, end);
}

// "1a" or "1a;name=value", of which the latter means nothing here.
void HttpParser::begin_chunk(std::string_view line) {
  const std::string_view digits = line.substr(0, line.find(';'));
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), body_bytes_, 16);
  const bool is_number = end == digits.data() + digits.size() && error != std::errc::invalid_argument;
  if (!is_number || has_control_character(line))
    throw HttpError(400, "a chunk of the body does not begin with its size, in hexadecimal digits");
  if (error != std::errc() || body_bytes_ > limits_.body_bytes - request_->body.size())
    throw HttpError(413, str("the body has more than the ", limits_.body_bytes, " bytes that are allowed"));
  awaited_ = body_bytes_ == 0 ? Awaited::trailer : Awaited::chunk_data;
}

void HttpParser::read_head(std::string_view head) {
  bool is_first = true;
  while (true) {
    const size_t end = head.find("\r\n");
    const std::string_view line = head.substr(0, end);
    if (std::exchange(is_first, false))
      read_request_line(line);
    else
      request_->headers.push_back(header_of(line));
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

// What the headers say of the body and the connection. Two that disagree would let a request hide in another.
void HttpParser::take_meaning() {
  const auto only = [&](std::string_view name) -> const std::string* {
    const auto count =
        std::ranges::count_if(request_->headers, [&](const auto& header) { return header.first == name; });
    if (count > 1) throw HttpError(400, str("the header ", name, " comes twice"));
    return request_->header(name);
  };
  if (is_version_1_1_ && !only("host")) throw HttpError(400, "the header Host is missing");
  const std::string *const length = only("content-length"), *const coding = only("transfer-encoding");
  is_chunked_ = coding != nullptr;
  if (coding && (length || !is_version_1_1_))
    throw HttpError(400, "Transfer-Encoding comes without a Content-Length, and in HTTP/1.1 alone");
  if (coding && lower_case(*coding) != "chunked")
    throw HttpError(501, "of the transfer codings, chunked alone is read here");
  awaited_ = Awaited::chunk_size;
  body_bytes_ = trailer_bytes_ = 0;
  if (length) {
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
    expects_continue_ = is_chunked_ || body_bytes_ > 0;
  }
}

}  // namespace tutti::serving
