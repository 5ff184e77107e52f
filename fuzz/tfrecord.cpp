// Files of records: whatever the bytes are, they are read, or refused as data_loss. The first byte says how a file is
// compressed, and whether its checksums are made right, so that more than the first one is met.
#include "tutti/data/tfrecord.h"

#include <cstring>
#include <string_view>
#include <vector>

#include "fuzz/scratch_file.h"
#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"

namespace tutti::data {
namespace {

void put_checksum(std::vector<uint8_t>& bytes, size_t first, size_t count) {
  const uint32_t checksum = mask_crc32c(crc32c(bytes.data() + first, count));
  std::memcpy(bytes.data() + first + count, &checksum, sizeof checksum);
}

void mend_checksums(std::vector<uint8_t>& bytes) {
  for (size_t at = 0; bytes.size() - at >= 12;) {
    uint64_t length;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    put_checksum(bytes, at, 8);
    at += 12;
    if (length > bytes.size() - at || bytes.size() - at - length < 4) return;
    put_checksum(bytes, at, length);
    at += length + 4;
  }
}

std::vector<std::string> read_all(const std::filesystem::path& path, Compression compression) {
  std::vector<std::string> records;
  try {
    const auto iterator = tfrecord_dataset({path}, {.compression = compression}).node()->iterate({});
    for (graph::Element record; iterator->next(record);)
      records.push_back(std::get<Strings>(record.leaves()[0]).item());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::data_loss) throw;
  }
  return records;
}

// What was read, written again, is how the file begins.
void check_round_trip(const std::vector<std::string>& records, const std::vector<uint8_t>& bytes) {
  const auto path = fuzz::scratch_file(nullptr, 0);
  TFRecordWriter writer(path);
  for (const std::string& record : records) writer.write(record);
  writer.close();
  std::ifstream file(path, std::ios::binary);
  const std::string written{std::istreambuf_iterator<char>(file), {}};
  if (!std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()).starts_with(written))
    __builtin_trap();
}

}  // namespace
}  // namespace tutti::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti::data;
  if (size == 0) return 0;
  const auto compression = static_cast<Compression>(data[0] % 3);
  std::vector<uint8_t> bytes(data + 1, data + size);
  if (data[0] & 128) mend_checksums(bytes);
  const auto records = read_all(tutti::fuzz::scratch_file(bytes.data(), bytes.size()), compression);
  if (compression == Compression::none) check_round_trip(records, bytes);
  return 0;
}
