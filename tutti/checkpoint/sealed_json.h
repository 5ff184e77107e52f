#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::checkpoint {

// A JSON object in one line, whose last member is the CRC32C of all bytes before that member:
// {"step":5,"crc32c":"0a1b2c3d"}

// `object` is a JSON object that is not empty. Ends with a newline.
std::string seal(std::string object);
// The object without the seal. `source` names the text in messages.
// Throws: data_loss unless `sealed` is byte for byte what seal() returned.
std::string unseal(std::string sealed, const std::string& source);

// "0a1b2c3d"
std::string crc_text(uint32_t crc);
// Empty for anything that crc_text does not return.
std::optional<uint32_t> parse_crc(std::string_view text);

}  // namespace tutti::checkpoint
