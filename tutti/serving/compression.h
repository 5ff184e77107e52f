#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::serving {

enum class Compression {
  none,
  deflate,  // RFC 1950, which HTTP and gRPC call so
  gzip,     // RFC 1952
};

constexpr size_t kMinCompressed = 1024;  // bytes, below which a packet is what counts

// What was compressed. Throws: resource_exhausted as soon as more than `max_bytes` come out; invalid_argument for what
// is not so compressed, or ends too early.
std::string inflated(std::string_view bytes, Compression compression, size_t max_bytes);

// In gzip, at zlib's fastest; empty where that is not shorter. `bytes` are less than 4 GiB.
std::string gzipped(std::string_view bytes);

}  // namespace tutti::serving
