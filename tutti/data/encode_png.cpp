#include "tutti/data/encode_png.h"

#include <png.h>

#include <array>
#include <limits>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {
namespace {

constexpr std::array<png_uint_32, 5> kFormats = {0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};

void check(const Tensor& image) {
  if (image.scalar_type() == at::kByte && image.dim() == 3 && image.numel() > 0 && image.size(2) <= 4 &&
      image.numel() <= std::numeric_limits<int32_t>::max())
    return;
  throw Error(ErrorCode::invalid_argument,
              str("encode_png: the image is ", c10::toString(image.scalar_type()), ' ', str_list(image.sizes()),
                  "; it must be uint8 [height, width, channels] with 1 to 4 channels, and have pixels"));
}

}  // namespace

std::string encode_png(const Tensor& image) {
  check(image);
  const Tensor pixels = image.cpu().contiguous();
  png_image form{};
  form.version = PNG_IMAGE_VERSION;
  form.height = static_cast<png_uint_32>(pixels.size(0));
  form.width = static_cast<png_uint_32>(pixels.size(1));
  form.format = kFormats[static_cast<size_t>(pixels.size(2))];
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(form);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&form, bytes.data(), &size, /*convert_to_8bit=*/0, pixels.const_data_ptr<uint8_t>(),
                                /*row_stride=*/0, /*colormap=*/nullptr) == 0)
    throw Error(ErrorCode::internal, str("encode_png: libpng says: ", &form.message[0]));
  bytes.resize(size);
  return bytes;
}

}  // namespace tutti::data
