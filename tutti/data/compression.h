#pragma once

namespace tutti::data {

// How the bytes of a file are packed. TF: compression_type "", "GZIP", "ZLIB".
enum class Compression { none, gzip, zlib };

constexpr const char* to_string(Compression compression) {
  return compression == Compression::none ? "none" : compression == Compression::gzip ? "gzip" : "zlib";
}

namespace compression_internal {

// What zlib calls the window bits of a format: a window of 32 KB, plus 16 for gzip's header.
constexpr int window_bits(Compression compression) { return compression == Compression::gzip ? 15 + 16 : 15; }

}  // namespace compression_internal

}  // namespace tutti::data
