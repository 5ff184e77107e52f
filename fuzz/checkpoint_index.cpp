// The index of a checkpoint and the list of a directory: what they take is consistent, what they don't is data_loss or
// unimplemented. The input is the text before the seal: a fuzzer does not guess checksums.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tutti/checkpoint/checkpoint_list.h"
#include "tutti/checkpoint/index.h"
#include "tutti/checkpoint/sealed_json.h"
#include "tutti/core/error.h"

namespace {

template <class F>
void allow_damage(F f) {
  using tutti::ErrorCode;
  try {
    f();
  } catch (const tutti::Error& error) {
    if (error.code() != ErrorCode::data_loss && error.code() != ErrorCode::unimplemented) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti::checkpoint;
  const std::string text(reinterpret_cast<const char*>(data), size);
  allow_damage([&] { parse_index(text, "the input"); });
  if (text.empty()) return 0;
  allow_damage([&] {
    const Index index = parse_index(seal(text), "the input");
    Index again = parse_index(index_text(index), "what was written");
    if (index_text(again) != index_text(index)) std::abort();
  });
  allow_damage([&] {
    const CheckpointList list = parse_list(seal(text), "the input");
    if (parse_list(list_text(list), "what was written") != list) std::abort();
  });
  return 0;
}
