#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// Values one after the other as bytes: numbers as 8 bytes, little-endian; text behind its length.
class ByteWriter {
 public:
  void number(int64_t value) { raw(&value, sizeof value); }
  void text(std::string_view value);
  void raw(const void* from, size_t count);

  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// Reads what a ByteWriter wrote, in the same order. Nothing in it is believed. Throws, from every member: data_loss.
class ByteReader {
 public:
  // Does not own the bytes. `what` begins the text of errors: "restoring an iterator".
  ByteReader(std::span<const uint8_t> bytes, std::string what) : bytes_(bytes), what_(std::move(what)) {}

  int64_t number();
  int64_t number_in(int64_t first, int64_t last);  // both included
  // How many things follow that take at least `bytes_each`.
  int64_t count(size_t bytes_each);
  std::string text();
  const uint8_t* raw(uint64_t count);

  uint64_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }
  // Throws unless everything was read.
  void finish() const;

  [[noreturn]] void damaged(const std::string& seen) const;

 private:
  std::span<const uint8_t> bytes_;
  std::string what_;
  uint64_t position_ = 0;
};

}  // namespace tutti
