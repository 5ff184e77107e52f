#include "tutti/data/decode_image.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/image_decoders.h"

namespace tutti::data {

Tensor decode_image(std::string_view bytes, const DecodeImageOptions& options, const std::string& name) {
  const std::string where = name.empty() ? "decode_image: the image" : str("decode_image: '", name, "'");
  const int channels = options.channels;
  if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
    throw Error(ErrorCode::invalid_argument, str("decode_image: ", channels, " channels; 0, 1, 3 or 4 are possible"));
  if (bytes.starts_with("\xFF\xD8\xFF")) return decode_jpeg(bytes, options, where);
  if (bytes.starts_with("\x89PNG\r\n\x1A\n")) return decode_png(bytes, options, where);
  const char* known = bytes.starts_with("GIF8") ? ", but a GIF" : bytes.starts_with("BM") ? ", but a BMP" : "";
  throw Error(ErrorCode::invalid_argument,
              str(where, " (", bytes.size(), " bytes) is neither a JPEG nor a PNG", known, "; convert it"));
}

Tensor empty_image(uint32_t height, uint32_t width, int channels, const DecodeImageOptions& options,
                   const std::string& where) {
  const uint64_t pixels = uint64_t{height} * width;  // less than 2^64
  if (pixels == 0 || pixels > static_cast<uint64_t>(std::max<int64_t>(options.max_pixels, 0)))
    throw Error(ErrorCode::data_loss, str(where, " says that it has ", height, " x ", width, " pixels; 1 to ",
                                          options.max_pixels, " are allowed (max_pixels)"));
  return at::empty({height, width, channels}, at::kByte);
}

}  // namespace tutti::data
