#pragma once

#include <torch/torch.h>
#include <zlib.h>

#include <fstream>
#include <string>

// Writes a grey picture. Shapes: image uint8 [height, width]. Source: PNG specification, third edition, sections 5
// and 11.
inline void write_png(const std::string& path, const torch::Tensor& image) {
  const auto big_endian = [](uint64_t value) {
    return std::string{static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
                       static_cast<char>(value)};
  };
  const auto bytes = [](const std::string& text) { return reinterpret_cast<const Bytef*>(text.data()); };
  std::ofstream file(path, std::ios::binary);
  const auto chunk = [&](const std::string& type, const std::string& data) {
    const std::string body = type + data;
    file << big_endian(data.size()) << body << big_endian(crc32(0, bytes(body), static_cast<uInt>(body.size())));
  };
  std::string rows;  // each begins with the number of its filter: 0, none
  for (const torch::Tensor& row : image.contiguous().unbind())
    rows += '\0' + std::string(reinterpret_cast<const char*>(row.const_data_ptr<uint8_t>()), row.numel());
  uLongf size = compressBound(rows.size());
  std::string deflated(size, '\0');
  compress(reinterpret_cast<Bytef*>(deflated.data()), &size, bytes(rows), rows.size());

  file << "\x89PNG\r\n\x1a\n";
  const std::string eight_bits_of_grey{8, 0, 0, 0, 0};
  chunk("IHDR", big_endian(image.size(1)) + big_endian(image.size(0)) + eight_bits_of_grey);
  chunk("IDAT", deflated.substr(0, size));
  chunk("IEND", "");
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}
