#include "tutti/core/bytes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti {

static_assert(std::endian::native == std::endian::little);

void ByteWriter::raw(const void* from, size_t count) {
  const auto* first = static_cast<const uint8_t*>(from);
  bytes_.insert(bytes_.end(), first, first + count);
}

void ByteWriter::text(std::string_view value) {
  number(static_cast<int64_t>(value.size()));
  raw(value.data(), value.size());
}

void ByteReader::damaged(const std::string& seen) const {
  throw Error(ErrorCode::data_loss,
              str(what_, ": ", seen, "; what was saved is damaged, or belongs to something else"));
}

const uint8_t* ByteReader::raw(uint64_t count) {
  if (count > left()) damaged(str("its ", bytes_.size(), " bytes end before what they announce"));
  const uint8_t* from = bytes_.data() + position_;
  position_ += count;
  return from;
}

int64_t ByteReader::number() {
  int64_t value;
  std::memcpy(&value, raw(sizeof value), sizeof value);
  return value;
}

int64_t ByteReader::number_in(int64_t first, int64_t last) {
  const int64_t value = number();
  if (value < first || value > last)
    damaged(str("byte ", position_ - sizeof value, " has ", value, ", which must be ", first, " to ", last));
  return value;
}

int64_t ByteReader::count(size_t bytes_each) {
  const uint64_t behind = left() - std::min<uint64_t>(left(), sizeof(int64_t));
  return number_in(0, static_cast<int64_t>(behind / bytes_each));
}

std::string ByteReader::text() {
  const auto size = static_cast<uint64_t>(count(1));
  const uint8_t* first = raw(size);
  return {first, first + size};
}

void ByteReader::finish() const {
  if (left() != 0) damaged(str("the last ", left(), " of its ", bytes_.size(), " bytes belong to nothing"));
}

}  // namespace tutti
