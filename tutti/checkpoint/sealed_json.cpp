#include "tutti/checkpoint/sealed_json.h"

#include <array>

#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::checkpoint {
namespace {

constexpr std::string_view kBefore = ",\"crc32c\":\"";
constexpr std::string_view kAfter = "\"}\n";
constexpr size_t kSealDigits = 8;
constexpr size_t kSealBytes = kBefore.size() + kSealDigits + kAfter.size();
constexpr std::string_view kHexadecimal = "0123456789abcdef";

constexpr uint8_t kNoDigit = 0x80;
constexpr auto kDigitOf = [] {
  std::array<uint8_t, 256> digits{};
  digits.fill(kNoDigit);
  for (uint8_t digit = 0; digit < kHexadecimal.size(); ++digit)
    digits[static_cast<uint8_t>(kHexadecimal[digit])] = digit;
  return digits;
}();

}  // namespace

std::string crc_text(uint32_t crc) {
  std::string text(kSealDigits, '0');
  for (size_t i = kSealDigits; i-- > 0; crc >>= 4) text[i] = kHexadecimal[crc & 15];
  return text;
}

std::optional<uint32_t> parse_crc(std::string_view text) {
  if (text.size() != kSealDigits) return {};
  uint32_t crc = 0, all = 0;
  for (const char c : text) {
    const uint32_t digit = kDigitOf[static_cast<unsigned char>(c)];
    crc = crc << 4 | digit;
    all |= digit;
  }
  if (all & kNoDigit) return {};
  return crc;
}

int64_t read_version(JsonReader& json, std::string_view format, std::string_view seen) {
  const int64_t version = json.integer();
  if (seen != format || version < 1) json.fail(str("not a ", format, " but \"", seen, "\" of version ", version));
  if (version > kFormatVersion)
    json.fail(str("written in version ", version, " of the format; this library reads versions up to ", kFormatVersion,
                  ". A newer one can read it"),
              ErrorCode::unimplemented);
  return version;
}

std::string seal(std::string object) {
  object.pop_back();
  const std::string crc = crc_text(crc32c(object.data(), object.size()));
  return object.append(kBefore).append(crc).append(kAfter);
}

std::string unseal(std::string sealed, const std::string& source) {
  const auto fail = [&](const std::string& what) { throw Error(ErrorCode::data_loss, str(source, " ", what)); };
  if (sealed.size() < kSealBytes)
    fail(str("has ", sealed.size(), " bytes; its CRC32C alone takes ", kSealBytes, ": it is truncated"));
  const size_t length = sealed.size() - kSealBytes;
  const std::string_view ending = std::string_view(sealed).substr(length);
  const auto stored = parse_crc(ending.substr(kBefore.size(), kSealDigits));
  if (!ending.starts_with(kBefore) || !ending.ends_with(kAfter) || !stored)
    fail(str("does not end with its CRC32C: its ", sealed.size(), " bytes are truncated or damaged"));
  if (const uint32_t computed = crc32c(sealed.data(), length); computed != *stored)
    fail(str("is damaged: stored CRC32C ", crc_text(*stored), ", computed ", crc_text(computed)));
  sealed.resize(length);
  return sealed += '}';
}

}  // namespace tutti::checkpoint
