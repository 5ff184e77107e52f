#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <jpeglib.h>
#include <png.h>

#include "tutti/core/tensor_fwd.h"

namespace tutti {

struct JpegForm {
  int quality = 95;
  bool progressive = false;
  J_COLOR_SPACE space = JCS_UNKNOWN;  // of the pixels; unknown: grey or RGB
};

// The pixels, uint8 [height, width, channels], as the bytes of a JPEG file.
inline std::string jpeg(const Tensor& image, const JpegForm& form = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = static_cast<JDIMENSION>(image.size(0));
  info.image_width = static_cast<JDIMENSION>(image.size(1));
  info.input_components = static_cast<int>(image.size(2));
  info.in_color_space = form.space != JCS_UNKNOWN ? form.space : image.size(2) == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, form.quality, TRUE);
  if (form.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (int64_t i = 0; i < image.size(0); ++i) {
    const Tensor pixels = image[i].contiguous();
    JSAMPROW row = pixels.mutable_data_ptr<uint8_t>();
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string result(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return result;
}

struct PngForm {
  int depth = 8;  // 16: rows of big-endian pairs of bytes, image [height, width, 2 * channels]
  int color_type = PNG_COLOR_TYPE_RGB;
  bool interlaced = false;
  std::string palette = "";  // red, green, blue of each colour
  std::string alpha = "";    // of the palette's first colours
};

// The rows, uint8 [height, width, bytes of a pixel], as the bytes of a PNG file.
inline std::string png(const Tensor& image, const PngForm& form = {}) {
  std::string result;
  png_structp out = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(out);
  const auto write = [](png_structp png, png_bytep bytes, size_t size) {
    static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), size);
  };
  png_set_write_fn(out, &result, write, [](png_structp) {});
  png_set_IHDR(out, info, static_cast<png_uint_32>(image.size(1)), static_cast<png_uint_32>(image.size(0)), form.depth,
               form.color_type, form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!form.palette.empty())
    png_set_PLTE(out, info, reinterpret_cast<png_const_colorp>(form.palette.data()),
                 static_cast<int>(form.palette.size() / 3));
  if (!form.alpha.empty())
    png_set_tRNS(out, info, reinterpret_cast<png_const_bytep>(form.alpha.data()), static_cast<int>(form.alpha.size()),
                 nullptr);
  png_write_info(out, info);
  const int passes = png_set_interlace_handling(out);
  const Tensor pixels = image.contiguous();
  for (int pass = 0; pass < passes; ++pass)
    for (int64_t i = 0; i < image.size(0); ++i)
      png_write_row(out, pixels.const_data_ptr<uint8_t>() + i * image.size(1) * image.size(2));
  png_write_end(out, info);
  png_destroy_write_struct(&out, &info);
  return result;
}

}  // namespace tutti
