// .npy and .npz files: whatever the bytes are, they are read, or refused as data_loss or unimplemented. The first byte
// says which of the two they are. An array that was read is read again after it was written.
#include "tutti/files/npy.h"

#include <cstring>

#include "fuzz/scratch_file.h"
#include "tutti/core/error.h"

namespace tutti::files {
namespace {

void check_round_trip(const Tensor& array) {
  const auto path = fuzz::scratch_file(nullptr, 0);
  write_npy(path, array);
  const Tensor again = read_npy(path);
  const bool same =
      again.scalar_type() == array.scalar_type() && again.sizes() == array.sizes() &&
      (array.nbytes() == 0 || std::memcmp(again.const_data_ptr(), array.const_data_ptr(), array.nbytes()) == 0);
  if (!same) __builtin_trap();
}

}  // namespace
}  // namespace tutti::files

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const auto path = fuzz::scratch_file(data + 1, size - 1);
  try {
    if (data[0] % 2 == 0) {
      files::check_round_trip(files::read_npy(path));
    } else {
      for (const auto& [name, array] : files::read_npz(path)) files::check_round_trip(array);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::data_loss && error.code() != ErrorCode::unimplemented) throw;
  }
  return 0;
}
