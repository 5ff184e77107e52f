#include "tutti/serving/content_coding.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "tutti/core/error.h"
#include "tutti/serving/compression.h"

namespace tutti::serving {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool same_word(std::string_view one, std::string_view lower_case) {
  return std::ranges::equal(one, lower_case, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

}  // namespace

void decode_body(HttpRequest& request, size_t max_bytes) {
  const auto is_coding = [](const auto& header) { return header.first == "content-encoding"; };
  const auto found = std::ranges::find_if(request.headers, is_coding);
  if (found == request.headers.end()) return;
  const std::string coding = found->second;
  const bool is_gzip = same_word(coding, "gzip") || same_word(coding, "x-gzip"), is_zlib = same_word(coding, "deflate");
  const bool is_one = std::ranges::count_if(request.headers, is_coding) == 1;
  if (!is_one || (!is_gzip && !is_zlib && !same_word(coding, "identity")))
    throw HttpError(415, "the Content-Encodings gzip and deflate are read here, one of them at a time");
  try {
    const auto compression = is_gzip ? Compression::gzip : is_zlib ? Compression::deflate : Compression::none;
    if (compression != Compression::none) request.body = inflated(request.body, compression, max_bytes);
  } catch (const Error& error) {
    throw HttpError(error.code() == ErrorCode::resource_exhausted ? 413 : 400, error.what());
  }
  request.headers.erase(found);
}

bool accepts_gzip(const HttpRequest& request) {
  const std::string* const header = request.header("accept-encoding");
  std::string_view rest = header ? std::string_view(*header) : std::string_view();
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    const size_t semicolon = entry.find(';');
    if (!same_word(trimmed(entry.substr(0, semicolon)), "gzip")) continue;
    const std::string_view weight =
        semicolon == std::string_view::npos ? std::string_view() : trimmed(entry.substr(semicolon + 1));
    return weight.find_first_not_of("q=0. ") != std::string_view::npos || weight.empty();  // "q=0.000" is a no
  }
  return false;
}

bool is_worth_gzip(const HttpResponse& response) {
  const bool is_text = response.content_type == "application/json" || response.content_type.starts_with("text/");
  return is_text && response.body.size() >= kMinCompressed &&
         response.body.size() <= std::numeric_limits<uint32_t>::max();
}

void encode_by_gzip(HttpResponse& response) {
  const std::string& body = response.body;
  response.headers.emplace_back("Vary", "Accept-Encoding");
  std::string out = gzipped(body);
  if (out.empty()) return;
  response.body = std::move(out);
  response.headers.emplace_back("Content-Encoding", "gzip");
}

}  // namespace tutti::serving
