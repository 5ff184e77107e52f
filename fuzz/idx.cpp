// IDX files: whatever the bytes are, they are read, or refused as data_loss.
#include "tutti/data/idx.h"

#include "fuzz/scratch_file.h"
#include "tutti/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    tutti::data::read_idx(tutti::fuzz::scratch_file(data, size));
  } catch (const tutti::Error& error) {
    if (error.code() != tutti::ErrorCode::data_loss) throw;
  }
  return 0;
}
