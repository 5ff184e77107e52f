#include "tutti/serving/compression.h"

#include <zlib.h>

#include <array>
#include <limits>
#include <new>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::serving {
namespace {

// How zlib is told of a format, in its windowBits.
constexpr int kZlibFormat = 15, kGzipFormat = 15 + 16;

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
        throw Error(ErrorCode::resource_exhausted,
                    str("the message is compressed from more than the ", max_bytes, " bytes that are allowed"));
      out.append(piece.data(), count);
      if (result == Z_STREAM_END) {
        if (stream_.avail_in == 0) return out;
        if (!has_members) throw Error(ErrorCode::invalid_argument, "bytes follow what is compressed in the message");
        inflateReset(&stream_);
      } else if (result != Z_OK) {
        throw Error(ErrorCode::invalid_argument, result == Z_BUF_ERROR ? "the compressed message ends too early"
                                                                       : "the message is not compressed as it says");
      }
    }
  }

 private:
  z_stream stream_{};
};

}  // namespace

std::string inflated(std::string_view bytes, Compression compression, size_t max_bytes) {
  if (compression == Compression::none) return std::string(bytes);
  if (bytes.size() > std::numeric_limits<uInt>::max())
    throw Error(ErrorCode::resource_exhausted, "a compressed message has less than 4 GiB");
  const bool is_gzip = compression == Compression::gzip;
  return Inflater(is_gzip ? kGzipFormat : kZlibFormat).inflate_all(bytes, is_gzip, max_bytes);
}

std::string gzipped(std::string_view bytes) {
  z_stream stream{};
  constexpr int kMemory = 8;  // zlib's own choice
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipFormat, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out(bytes.size(), '\0');
  point_at(stream, bytes);
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool is_shorter = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(is_shorter ? stream.total_out : 0);
  deflateEnd(&stream);
  return out;
}

}  // namespace tutti::serving
