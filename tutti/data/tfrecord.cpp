#include "tutti/data/tfrecord.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>

#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/compressed_file.h"
#include "tutti/data/graph/call_text.h"
#include "tutti/data/graph/file_records.h"

namespace tutti::data {
namespace {

static_assert(std::endian::native == std::endian::little);

uint32_t checksum(const void* bytes, size_t num_bytes) { return mask_crc32c(crc32c(bytes, num_bytes)); }

struct RecordHeader {
  std::array<char, 12> bytes;  // the length, and its checksum

  uint64_t length() const { return number<uint64_t>(0); }
  uint32_t stored() const { return number<uint32_t>(8); }
  uint32_t computed() const { return checksum(bytes.data(), 8); }
  template <class Number>
  Number number(size_t at) const {
    Number value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  }
};

class TFRecordReader : public graph::RecordReader {
 public:
  TFRecordReader(const std::filesystem::path& path, Compression compression)
      : path_(path), plain_(compression == Compression::none), file_(path, compression) {}

  // A record whose length is right can be passed over where its bytes are damaged.
  bool goes_on() const override { return passed_; }

  bool next(graph::Element& element) override {
    passed_ = false;
    offset_ = file_.position();
    RecordHeader header;
    const size_t got = file_.read(header.bytes.data(), header.bytes.size());
    if (got == 0) return false;
    if (got < header.bytes.size()) damaged(str("the file ends after ", got, " of the 12 bytes before a record"));
    check_header(header);
    std::string record = file_.read_string(header.length());
    uint32_t stored;
    if (record.size() < header.length() || file_.read(&stored, sizeof stored) < sizeof stored)
      damaged(str("the file ends before the record's ", header.length(), " bytes and the 4 of their checksum do"));
    passed_ = true;
    const int64_t number = number_++;
    if (const uint32_t computed = checksum(record.data(), record.size()); stored != computed)
      damaged(number, str("the masked CRC-32C of its ", record.size(), " bytes is ", hex(computed), ", the file says ",
                          hex(stored)));
    element = graph::Element({Strings(std::move(record))});
    return true;
  }

  void save(graph::StateWriter& state) const override { state.number(static_cast<int64_t>(file_.position())); }
  void restore(graph::StateReader& state, int64_t num_read) override {
    number_ = num_read;
    file_.seek(static_cast<uint64_t>(state.number_in(0, INT64_MAX)));
  }

 private:
  void check_header(const RecordHeader& header) const {
    if (header.stored() != header.computed())
      damaged(str("the masked CRC-32C of its length is ", hex(header.computed()), ", the file says ",
                  hex(header.stored()),
                  offset_ == 0 && header.bytes[0] == '\x1f' && header.bytes[1] == '\x8b'
                      ? "; it begins as gzip does: read it with {.compression = Compression::gzip}"
                      : ""));
    if (header.length() > file_.max_left())
      damaged(str("its length is ", header.length(), ", and no more than ", file_.max_left(), " bytes are left"));
  }

  static std::string hex(uint32_t number) {
    std::array<char, 11> text;
    std::snprintf(text.data(), text.size(), "0x%08x", number);
    return text.data();
  }

  [[noreturn]] void damaged(const std::string& what) const { damaged(number_, what); }
  [[noreturn]] void damaged(int64_t number, const std::string& what) const {
    throw Error(ErrorCode::data_loss, str("tfrecord_dataset: '", path_.string(), "', record ", number, " at byte ",
                                          offset_, plain_ ? "" : " of the content", ": ", what));
  }

  std::filesystem::path path_;
  bool plain_;
  CompressedFile file_;
  int64_t number_ = 0;   // of the record that is read next, or being read
  uint64_t offset_ = 0;  // where that begins
  bool passed_ = false;  // the last one was read to its end
};

}  // namespace

TFRecordWriter::TFRecordWriter(const std::filesystem::path& path, const TFRecordOptions& options)
    : file_(path, options.compression, options.compression_level) {}

void TFRecordWriter::write(std::string_view record) {
  const uint64_t length = record.size();
  std::array<char, 12> header;
  const uint32_t of_length = checksum(&length, sizeof length);
  std::memcpy(header.data(), &length, sizeof length);
  std::memcpy(header.data() + sizeof length, &of_length, sizeof of_length);
  const uint32_t of_bytes = checksum(record.data(), record.size());
  file_.write(header.data(), header.size());
  file_.write(record.data(), record.size());
  file_.write(&of_bytes, sizeof of_bytes);
}

Dataset<Strings> tfrecord_dataset(std::vector<std::filesystem::path> files, const TFRecordOptions& options) {
  return Dataset<Strings>(graph::read_files(
      std::move(files), graph::call_text("tfrecord_dataset", to_string(options.compression)),
      [compression = options.compression](const std::filesystem::path& file) {
        return std::make_unique<TFRecordReader>(file, compression);
      },
      graph::kNotBatched));
}

}  // namespace tutti::data
