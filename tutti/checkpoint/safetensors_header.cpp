#include "tutti/checkpoint/safetensors_header.h"

#include <algorithm>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/files/dtype_names.h"

namespace tutti::checkpoint {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr const char* kMetadata = "__metadata__";
constexpr size_t kMaxRank = 64;

std::string quoted_name(const std::string& name) {
  if (name == kMetadata || !is_utf8(name))
    throw Error(ErrorCode::invalid_argument, str("safetensors: a tensor can't have the name '", name, "'"));
  return json_text(name);
}

void append_entry(std::string& out, const SafetensorsEntry& entry) {
  out.append(quoted_name(entry.name)).append(":{\"dtype\":\"").append(files::safetensors_name(entry.dtype));
  out += "\",\"shape\":[";
  for (const int64_t size : entry.sizes) {
    if (out.back() != '[') out += ',';
    out += std::to_string(size);
  }
  out.append("],\"data_offsets\":[").append(std::to_string(entry.begin)).append(",");
  out.append(std::to_string(entry.end)).append("]}");
}

class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& source, uint64_t data_bytes)
      : json_(text, source), data_bytes_(data_bytes) {}

  SafetensorsHeader run() {
    json_.object([&](std::string_view key) {
      if (key == kMetadata)
        json_.object([&](std::string_view name) { header_.metadata[std::string(name)] = json_.text(); });
      else
        entry(key);
    });
    json_.end();
    check_places();
    return std::move(header_);
  }

 private:
  uint64_t count() {
    const int64_t value = json_.integer();
    if (value < 0) json_.fail(str(value, " is negative"));
    return static_cast<uint64_t>(value);
  }

  void entry(std::string_view name) {
    SafetensorsEntry entry{.name = std::string(name), .dtype = at::kByte};
    std::vector<uint64_t> offsets;
    std::string dtype;
    bool has_shape = false;
    json_.object([&](std::string_view key) {
      if (key == "dtype") {
        dtype = json_.text();
      } else if (key == "shape") {
        has_shape = true;
        json_.array([&] {
          entry.sizes.push_back(static_cast<int64_t>(count()));
          if (entry.sizes.size() > kMaxRank) json_.fail(str("tensor \"", name, "\" has more than ", kMaxRank, " axes"));
        });
      } else if (key == "data_offsets") {
        json_.array([&] {
          offsets.push_back(count());
          if (offsets.size() > 2) json_.fail(str("tensor \"", name, "\" has more than two data_offsets"));
        });
      } else {
        json_.fail(str("unknown key \"", key, "\" of tensor \"", name, "\""));
      }
    });
    if (dtype.empty() || !has_shape || offsets.size() != 2)
      json_.fail(str("tensor \"", name, "\" needs a dtype, a shape and two data_offsets"));
    entry.begin = offsets[0];
    entry.end = offsets[1];
    check_length(entry, dtype);
    header_.entries.push_back(std::move(entry));
  }

  void check_length(SafetensorsEntry& entry, const std::string& dtype) {
    const auto known = files::dtype_of_safetensors_name(dtype);
    if (!known && (dtype == "F4" || dtype == "F6_E2M3" || dtype == "F6_E3M2" || dtype == "C64"))
      throw Error(ErrorCode::unimplemented,
                  str("safetensors: tensor \"", entry.name, "\" has the dtype ", dtype, ", which is not supported"));
    if (!known) json_.fail(str("tensor \"", entry.name, "\" has the unknown dtype \"", dtype, "\""));
    entry.dtype = *known;
    auto bytes = static_cast<int64_t>(c10::elementSize(*known)), strides = bytes;
    for (const int64_t size : entry.sizes) {
      if (__builtin_mul_overflow(strides, std::max<int64_t>(size, 1), &strides))
        json_.fail(str("tensor \"", entry.name, "\" of shape ", str_list(entry.sizes), " is larger than 2^63 bytes"));
      bytes *= size;
    }
    if (entry.end < entry.begin || entry.end - entry.begin != static_cast<uint64_t>(bytes))
      json_.fail(str("tensor \"", entry.name, "\", ", dtype, " of shape ", str_list(entry.sizes), ", needs ", bytes,
                     " bytes; its data_offsets are ", entry.begin, " and ", entry.end));
  }

  void check_places() {
    std::ranges::sort(header_.entries, {}, &SafetensorsEntry::place);
    uint64_t end = 0;
    for (const SafetensorsEntry& entry : header_.entries) {
      if (entry.begin != end)
        json_.fail(str("tensor \"", entry.name, "\" begins at ", entry.begin, "; the data before it end at ", end));
      end = entry.end;
    }
    if (end != data_bytes_) json_.fail(str("the tensors end at ", end, "; there are ", data_bytes_, " bytes of data"));
  }

  JsonReader json_;
  uint64_t data_bytes_;
  SafetensorsHeader header_;
};

}  // namespace

SafetensorsEntry safetensors_entry(std::string name, at::ScalarType dtype, c10::IntArrayRef sizes, uint64_t begin) {
  uint64_t bytes = c10::elementSize(dtype);
  for (const int64_t size : sizes) bytes *= static_cast<uint64_t>(size);
  SafetensorsEntry entry{std::move(name), c10::toRealValueType(dtype), sizes.vec(), begin, begin + bytes};
  if (c10::isComplexType(dtype)) entry.sizes.push_back(2);
  return entry;
}

std::string safetensors_header_text(const SafetensorsHeader& header) {
  std::string text(kSafetensorsLengthBytes, '\0');
  text += '{';
  if (!header.metadata.empty()) {
    text.append(json_text(kMetadata)).append(":{");
    for (const auto& [name, value] : header.metadata) {
      if (!is_utf8(name) || !is_utf8(value))
        throw Error(ErrorCode::invalid_argument, str("safetensors: the metadata '", name, "' is not UTF-8"));
      if (text.back() != '{') text += ',';
      text.append(json_text(name)).append(":").append(json_text(value));
    }
    text += '}';
  }
  for (const SafetensorsEntry& entry : header.entries) {
    if (text.back() != '{') text += ',';
    append_entry(text, entry);
  }
  text += '}';
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = text.size() - kSafetensorsLengthBytes;
  if (length > kMaxSafetensorsHeaderBytes)
    throw Error(ErrorCode::invalid_argument,
                str("safetensors: the names of ", header.entries.size(), " tensors make a header of ", length,
                    " bytes; the format allows ", kMaxSafetensorsHeaderBytes));
  std::memcpy(text.data(), &length, sizeof length);
  return text;
}

uint64_t safetensors_data_begin(std::span<const std::byte> bytes, uint64_t file_bytes, const std::string& file) {
  const auto fail = [&](const std::string& what) { throw Error(ErrorCode::data_loss, str("'", file, "' ", what)); };
  if (bytes.size() < kSafetensorsLengthBytes || file_bytes < kSafetensorsLengthBytes)
    fail(str("has ", file_bytes, " bytes; a safetensors file begins with ", kSafetensorsLengthBytes,
             " for its header's length"));
  uint64_t length;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxSafetensorsHeaderBytes || length > file_bytes - kSafetensorsLengthBytes)
    fail(str("says that its header has ", length, " bytes; the file has ", file_bytes, ", and the format allows ",
             kMaxSafetensorsHeaderBytes));
  return kSafetensorsLengthBytes + length;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, uint64_t file_bytes,
                                           const std::string& file) {
  const uint64_t data_begin = safetensors_data_begin(bytes, file_bytes, file);
  if (bytes.size() < data_begin)
    throw Error(ErrorCode::data_loss, str("'", file, "': ", bytes.size(), " bytes of a header of ", data_begin));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kSafetensorsLengthBytes,
                              data_begin - kSafetensorsLengthBytes);
  SafetensorsHeader header = HeaderParser(text, str("the header of '", file, "'"), file_bytes - data_begin).run();
  header.data_begin = data_begin;
  return header;
}

}  // namespace tutti::checkpoint
