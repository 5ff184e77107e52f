// JPEG and PNG images: whatever the bytes are, they are decoded, or refused as data_loss or invalid_argument. The first
// byte gives the channels.
#include <array>

#include "tutti/core/error.h"
#include "tutti/data/decode_image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  constexpr std::array kChannels{0, 1, 3, 4};
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    const int channels = kChannels[data[0] % kChannels.size()];
    const Tensor image = data::decode_image(bytes, {.channels = channels, .max_pixels = 1 << 20});
    if (channels != 0 && image.size(2) != channels) __builtin_trap();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::data_loss && error.code() != ErrorCode::invalid_argument) throw;
  }
  return 0;
}
