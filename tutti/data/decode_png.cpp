// libpng reports errors by a function that must not return. It jumps back here over frames of C and over functions of
// this file that own nothing: what owns memory is made outside of `protect`.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/image_decoders.h"

namespace tutti::data {
namespace {

// No stream of deflate grows more than this many times (zlib's technical notes).
constexpr uint64_t kMaxPngExpansion = 1032;

struct PngDecoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string_view left;  // bytes not yet read
  std::jmp_buf failed{};
  char message[128] = {};
  const std::string& where;

  PngDecoder(std::string_view bytes, const std::string& name) : left(bytes), where(name) {}
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void fail(png_structp png, png_const_charp message) {
  auto& decoder = *static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::strncpy(decoder.message, message, sizeof decoder.message - 1);
  std::longjmp(decoder.failed, 1);
}

void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto& left = static_cast<PngDecoder*>(png_get_io_ptr(png))->left;
  if (left.size() < count) fail(png, "it is truncated");
  std::memcpy(to, left.data(), count);
  left.remove_prefix(count);
}

// Calls a step of the decoder; an error of libpng in it becomes data_loss.
template <class Step>
void protect(PngDecoder& decoder, const Step& step) {
  static_assert(std::is_trivially_destructible_v<Step>);
  if (setjmp(decoder.failed) == 0) return step();
  throw Error(ErrorCode::data_loss, str(decoder.where, " is damaged: ", decoder.message));
}

void begin(PngDecoder& decoder) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, fail, on_warning);
  if (!decoder.png) throw std::bad_alloc();
  protect(decoder, [&] {
    decoder.info = png_create_info_struct(decoder.png);
    png_set_read_fn(decoder.png, &decoder, read_bytes);
    png_read_info(decoder.png, decoder.info);
  });
}

// How many channels the image has once palette and transparent colour are expanded.
int own_channels(const PngDecoder& decoder) {
  const int type = png_get_color_type(decoder.png, decoder.info);
  const bool has_alpha =
      (type & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(decoder.png, decoder.info, PNG_INFO_tRNS) != 0;
  return ((type & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1) + (has_alpha ? 1 : 0);
}

// Asks libpng for rows of 8 bits in so many channels.
void set_transformations(PngDecoder& decoder, int channels) {
  const int own = own_channels(decoder);
  const bool has_alpha = own % 2 == 0, has_colour = own > 2;
  png_set_expand(decoder.png);
  png_set_strip_16(decoder.png);
  if (channels % 2 == 1 && has_alpha) png_set_strip_alpha(decoder.png);
  if (channels % 2 == 0 && !has_alpha) png_set_add_alpha(decoder.png, 0xFF, PNG_FILLER_AFTER);
  if (channels > 2 && !has_colour) png_set_gray_to_rgb(decoder.png);
  if (channels < 3 && has_colour) png_set_rgb_to_gray(decoder.png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
}

}  // namespace

Tensor decode_png(std::string_view bytes, const DecodeImageOptions& options, const std::string& where) {
  PngDecoder decoder(bytes, where);
  begin(decoder);
  const uint32_t height = png_get_image_height(decoder.png, decoder.info);
  const uint32_t width = png_get_image_width(decoder.png, decoder.info);
  const uint64_t packed_bits = uint64_t{width} * height * png_get_bit_depth(decoder.png, decoder.info) *
                               png_get_channels(decoder.png, decoder.info);
  const int channels = options.channels == 0 ? own_channels(decoder) : options.channels;
  if (packed_bits / 8 > bytes.size() * kMaxPngExpansion)
    throw Error(ErrorCode::data_loss, str(where, " says that it has ", height, " x ", width, " pixels, which its ",
                                          bytes.size(), " bytes cannot hold"));
  const Tensor image = empty_image(height, width, channels, options, where);
  protect(decoder, [&] { set_transformations(decoder, channels); });
  const size_t row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  if (row_bytes != size_t{width} * static_cast<size_t>(channels))
    throw Error(ErrorCode::internal, str(where, ": libpng gives ", row_bytes, " bytes a row"));

  std::vector<png_bytep> rows(height);
  for (uint32_t i = 0; i < height; ++i) rows[i] = image.mutable_data_ptr<uint8_t>() + i * row_bytes;
  protect(decoder, [&] {
    png_read_image(decoder.png, rows.data());
    png_read_end(decoder.png, nullptr);
  });
  return image;
}

}  // namespace tutti::data
