#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/core/json.h"

namespace tutti::checkpoint {

// A JSON object in one line, whose last member is the CRC32C of all bytes before that member:
// {"step":5,"crc32c":"0a1b2c3d"}

// `object` is a JSON object that is not empty. Ends with a newline.
std::string seal(std::string object);
// The object without the seal. `source` names the text in messages.
// Throws: data_loss unless `sealed` is byte for byte what seal() returned.
std::string unseal(std::string sealed, const std::string& source);

inline constexpr int64_t kFormatVersion = 1;
// Reads the version of a sealed object, which says right before it of what `format` it is. Throws: data_loss unless
// `seen` is that format; unimplemented for a version above kFormatVersion: what follows may have another form.
int64_t read_version(JsonReader& json, std::string_view format, std::string_view seen);

// "0a1b2c3d"
std::string crc_text(uint32_t crc);
// Empty for anything that crc_text does not return.
std::optional<uint32_t> parse_crc(std::string_view text);

}  // namespace tutti::checkpoint
