// Headers of safetensors files: what is taken can be written and read back, what isn't is data_loss or unimplemented.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "tutti/checkpoint/safetensors_header.h"
#include "tutti/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tutti::ErrorCode;
  using namespace tutti::checkpoint;
  try {
    SafetensorsHeader header = parse_safetensors_header(std::as_bytes(std::span(data, size)), size, "the input");
    const uint64_t data_bytes = size - header.data_begin;
    const std::string text = safetensors_header_text(header);
    header.data_begin = text.size();
    if (parse_safetensors_header(std::as_bytes(std::span(text)), text.size() + data_bytes, "written") != header)
      std::abort();
  } catch (const tutti::Error& error) {
    if (error.code() != ErrorCode::data_loss && error.code() != ErrorCode::unimplemented) std::abort();
  }
  return 0;
}
