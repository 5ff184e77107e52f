#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "tutti/data/decode_image.h"

// The formats behind decode_image, which has checked the options.
namespace tutti::data {

Tensor decode_jpeg(std::string_view bytes, const DecodeImageOptions& options, const std::string& where);
Tensor decode_png(std::string_view bytes, const DecodeImageOptions& options, const std::string& where);

// An image of this size, not filled. Throws: data_loss for no or too many pixels. where: how errors begin.
Tensor empty_image(uint32_t height, uint32_t width, int channels, const DecodeImageOptions& options,
                   const std::string& where);

}  // namespace tutti::data
