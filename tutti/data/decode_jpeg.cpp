// libjpeg reports errors by a function that must not return. It jumps back here over frames of C and over functions of
// this file that own nothing: what owns memory is made outside of `protect`.
#include <csetjmp>
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include <vector>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/image_decoders.h"

namespace tutti::data {
namespace {

// A progressive image may repeat its whole area in each of any number of tiny scans; real ones have about 10.
constexpr int kMaxScans = 200;

struct JpegDecoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf failed{};
  char message[JMSG_LENGTH_MAX] = {};
  const std::string& where;

  explicit JpegDecoder(const std::string& name) : where(name) {}
  ~JpegDecoder() { jpeg_destroy_decompress(&info); }
};

JpegDecoder& decoder_of(j_common_ptr info) { return *static_cast<JpegDecoder*>(info->client_data); }

void fail(j_common_ptr info) {
  JpegDecoder& decoder = decoder_of(info);
  info->err->format_message(info, decoder.message);
  std::longjmp(decoder.failed, 1);
}

// Negative levels are warnings. Those of data that is gone are errors; the others can be decoded all the same.
void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION: fail(info);
  }
}

void on_progress(j_common_ptr info) {
  JpegDecoder& decoder = decoder_of(info);
  if (decoder.info.input_scan_number <= kMaxScans) return;
  std::snprintf(decoder.message, sizeof decoder.message, "more than %d scans", kMaxScans);
  std::longjmp(decoder.failed, 1);
}

// Calls a step of the decoder; an error of libjpeg in it becomes data_loss.
template <class Step>
void protect(JpegDecoder& decoder, const Step& step) {
  static_assert(std::is_trivially_destructible_v<Step>);
  if (setjmp(decoder.failed) == 0) return step();
  throw Error(ErrorCode::data_loss, str(decoder.where, " is damaged: ", decoder.message));
}

void begin(JpegDecoder& decoder, std::string_view bytes) {
  decoder.info.client_data = &decoder;
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = fail;
  decoder.errors.emit_message = on_message;
  decoder.progress.progress_monitor = on_progress;
  protect(decoder, [&] {
    jpeg_create_decompress(&decoder.info);
    decoder.info.progress = &decoder.progress;
    jpeg_mem_src(&decoder.info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&decoder.info, TRUE);
  });
}

J_COLOR_SPACE output_space(const jpeg_decompress_struct& info, int channels) {
  if (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK) return JCS_CMYK;
  const int wanted = channels == 0 ? info.num_components : channels;
  return wanted == 1 ? JCS_GRAYSCALE : wanted == 4 ? JCS_EXT_RGBA : JCS_RGB;
}

// Rows of CMYK as red, green and blue. Adobe's files, and that is all there are, hold 255 minus the ink.
void cmyk_to_rgb(const uint8_t* from, uint8_t* to, size_t pixels) {
  for (size_t i = 0; i < pixels; ++i, from += 4, to += 3)
    for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(from[c] * from[3] / 255);
}

}  // namespace

Tensor decode_jpeg(std::string_view bytes, const DecodeImageOptions& options, const std::string& where) {
  JpegDecoder decoder(where);
  begin(decoder, bytes);
  jpeg_decompress_struct& info = decoder.info;
  info.out_color_space = output_space(info, options.channels);
  const bool is_cmyk = info.out_color_space == JCS_CMYK;
  if (is_cmyk && options.channels != 0 && options.channels != 3)
    throw Error(ErrorCode::invalid_argument,
                str(where, " is a JPEG of four inks, which becomes 3 channels and not ", options.channels));
  const int channels = is_cmyk || info.out_color_space == JCS_RGB ? 3 : info.out_color_space == JCS_GRAYSCALE ? 1 : 4;
  const Tensor image = empty_image(info.image_height, info.image_width, channels, options, where);

  const size_t row_bytes = size_t{info.image_width} * static_cast<size_t>(channels);
  std::vector<uint8_t> inks(is_cmyk ? size_t{info.image_width} * 4 : 0);
  uint8_t* row = image.mutable_data_ptr<uint8_t>();
  protect(decoder, [&] { jpeg_start_decompress(&info); });
  for (uint32_t i = 0; i < info.image_height; ++i, row += row_bytes) {
    uint8_t* to = is_cmyk ? inks.data() : row;
    protect(decoder, [&] { jpeg_read_scanlines(&info, &to, 1); });
    if (is_cmyk) cmyk_to_rgb(inks.data(), row, info.image_width);
  }
  protect(decoder, [&] { jpeg_finish_decompress(&info); });
  return image;
}

}  // namespace tutti::data
