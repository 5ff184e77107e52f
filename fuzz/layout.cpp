// The text of a mesh and of a layout: what is taken is written and read again as the same value, what is not is refused
// as invalid_argument or not_found. Meshes are kept for the life of the process, so a long run grows by what is valid.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tutti/core/error.h"
#include "tutti/device/logical_devices.h"
#include "tutti/mesh/layout.h"

namespace {

template <class Value>
void read(std::string_view text) {
  using tutti::ErrorCode;
  try {
    const Value value = Value::parse(text);
    if (!(Value::parse(value.serialize()) == value)) std::abort();
  } catch (const tutti::Error& error) {
    if (error.code() != ErrorCode::invalid_argument && error.code() != ErrorCode::not_found) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::configure_logical_cpus(4);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read<tutti::Mesh>(text);
  read<tutti::Layout>(text);
  return 0;
}
