#include "tutti/serving/content_coding.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>

#include "tutti/core/str.h"

namespace tutti::serving {
namespace {

// How zlib is told of a format, in its windowBits.
constexpr int kZlibFormat = 15, kGzipFormat = 15 + 16;
constexpr size_t kMinCompressed = 1024;  // bytes, below which a packet is what counts

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool same_word(std::string_view one, std::string_view lower_case) {
  return std::ranges::equal(one, lower_case, [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

void point_at(z_stream& stream, std::string_view bytes) {
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
}

class Inflater {
 public:
  explicit Inflater(int format) {
    if (inflateInit2(&stream_, format) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  // `has_members`: the bytes may be several streams, one behind the other, as gzip's may.
  std::string inflate_all(std::string_view bytes, bool has_members, size_t max_bytes) {
    std::string out;
    std::array<char, 65536> piece;
    point_at(stream_, bytes);
    while (true) {
      stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream_.avail_out = piece.size();
      const int result = inflate(&stream_, Z_NO_FLUSH);
      const size_t count = piece.size() - stream_.avail_out;
      if (count > max_bytes - out.size())
        throw HttpError(413, str("the body is compressed from more than the ", max_bytes, " bytes that are allowed"));
      out.append(piece.data(), count);
      if (result == Z_STREAM_END) {
        if (stream_.avail_in == 0) return out;
        if (!has_members) throw HttpError(400, "bytes follow what is compressed in the body");
        inflateReset(&stream_);
      } else if (result != Z_OK) {
        throw HttpError(400, result == Z_BUF_ERROR ? "the compressed body ends too early"
                                                   : "the body is not compressed as its Content-Encoding says");
      }
    }
  }

 private:
  z_stream stream_{};
};

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
  if (request.body.size() > std::numeric_limits<uInt>::max())
    throw HttpError(413, "a compressed body has less than 4 GiB");
  if (is_gzip || is_zlib)
    request.body = Inflater(is_gzip ? kGzipFormat : kZlibFormat).inflate_all(request.body, is_gzip, max_bytes);
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
  return is_text && response.body.size() >= kMinCompressed && response.body.size() <= std::numeric_limits<uInt>::max();
}

void encode_by_gzip(HttpResponse& response) {
  const std::string& body = response.body;
  response.headers.emplace_back("Vary", "Accept-Encoding");
  z_stream stream{};
  constexpr int kMemory = 8;  // zlib's own choice
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipFormat, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out(body.size(), '\0');
  point_at(stream, body);
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool is_shorter = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (!is_shorter) return;
  response.body = std::move(out);
  response.headers.emplace_back("Content-Encoding", "gzip");
}

}  // namespace tutti::serving
