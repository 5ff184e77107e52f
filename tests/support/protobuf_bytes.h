#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

// Messages as protobuf writes them, field by field: also such as no program of protobuf's would.
namespace tutti::testing_support::protobuf_bytes {

inline std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes += static_cast<char>(number);
}
inline std::string number(uint32_t field, int64_t value) {
  return varint(field << 3) + varint(static_cast<uint64_t>(value));
}
// A text or a message.
inline std::string part(uint32_t field, std::string_view bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}
inline std::string packed(uint32_t field, const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) bytes += varint(static_cast<uint64_t>(value));
  return part(field, bytes);
}
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(sizeof(T) * values.size(), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace tutti::testing_support::protobuf_bytes
