// HDF5 files: whatever the bytes are, they are read, or refused as data_loss or unimplemented. What was read is read
// again after it was written.
#include <cstring>
#include <map>
#include <string>

#include "fuzz/scratch_file.h"
#include "tutti/core/error.h"
#include "tutti/files/hdf5_reader.h"
#include "tutti/files/hdf5_writer.h"

namespace tutti::files {
namespace {

void check_round_trip(const std::map<std::string, Tensor>& datasets) {
  const auto path = fuzz::scratch_file(nullptr, 0);
  write_hdf5(path, datasets);
  const Hdf5Reader again(path);
  for (const auto& [place, tensor] : datasets) {
    const Tensor read = again.read(place);
    const bool same =
        read.scalar_type() == tensor.scalar_type() && read.sizes() == tensor.sizes() &&
        (tensor.nbytes() == 0 || std::memcmp(read.const_data_ptr(), tensor.const_data_ptr(), tensor.nbytes()) == 0);
    if (!same) __builtin_trap();
  }
}

}  // namespace
}  // namespace tutti::files

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  const auto path = fuzz::scratch_file(data, size);
  std::map<std::string, Tensor> datasets;
  try {
    const files::Hdf5Reader file(path);
    for (const std::string& place : file.datasets()) {
      datasets[place] = file.read(place);
      const std::string group = place.substr(0, place.find('/'));
      if (file.has_group(group)) (void)file.texts(group, "weight_names");
    }
    (void)file.texts("", "layer_names");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::data_loss && error.code() != ErrorCode::unimplemented) throw;
    return 0;
  }
  files::check_round_trip(datasets);
  return 0;
}
