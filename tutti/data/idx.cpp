#include "tutti/data/idx.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/compressed_file.h"
#include "tutti/files/byte_order.h"

namespace tutti::data {
namespace {

constexpr size_t kMaxAxes = 16;

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::data_loss, str("read_idx: '", path.string(), "' ", what));
}

struct IdxHeader {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
  uint64_t num_bytes;  // of the elements
};

at::ScalarType dtype_of(uint8_t code, const std::filesystem::path& path) {
  switch (code) {
    case 0x08: return at::kByte;
    case 0x09: return at::kChar;
    case 0x0B: return at::kShort;
    case 0x0C: return at::kInt;
    case 0x0D: return at::kFloat;
    case 0x0E: return at::kDouble;
  }
  damaged(path, str("has the element type ", int{code}, ", which IDX doesn't know"));
}

IdxHeader read_header(CompressedFile& file, const std::filesystem::path& path) {
  std::array<uint8_t, 4> magic;
  const size_t got = file.read(magic.data(), magic.size());
  if (got < magic.size()) damaged(path, str("has ", got, " bytes; the header alone has more"));
  if (magic[0] != 0 || magic[1] != 0) damaged(path, "is not an IDX file: it doesn't begin with two zero bytes");
  const size_t axes = magic[3];
  if (axes < 1 || axes > kMaxAxes) damaged(path, str("has ", axes, " axes; 1 to ", kMaxAxes, " are supported"));

  const at::ScalarType dtype = dtype_of(magic[2], path);
  IdxHeader header{.dtype = dtype, .sizes = {}, .num_bytes = c10::elementSize(dtype)};
  auto stride_bytes = static_cast<int64_t>(header.num_bytes);  // as num_bytes, but an axis of size 0 counts as 1
  bool overflow = false;
  for (size_t axis = 0; axis < axes; ++axis) {
    std::array<uint8_t, 4> bytes;
    if (file.read(bytes.data(), bytes.size()) < bytes.size()) damaged(path, "ends in its header");
    const uint32_t size = uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
    header.sizes.push_back(size);
    overflow |= __builtin_mul_overflow(stride_bytes, std::max<int64_t>(size, 1), &stride_bytes);
    header.num_bytes *= size;
  }
  if (overflow || header.num_bytes > file.max_left())
    damaged(path, str("says that its shape is ", str_list(header.sizes), ", which its ",
                      std::filesystem::file_size(path), " bytes cannot hold"));
  return header;
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path) {
  CompressedFile file(path);
  const IdxHeader header = read_header(file, path);
  Tensor result = at::empty(header.sizes, header.dtype);
  auto* bytes = static_cast<std::byte*>(result.mutable_data_ptr());
  const size_t got = file.read(bytes, header.num_bytes);
  if (got < header.num_bytes)
    damaged(path, str("is truncated: its header says ", header.num_bytes, " bytes of elements (",
                      str_list(header.sizes), "), it has ", got));
  if (!file.at_end())
    damaged(path, str("has more than the ", header.num_bytes, " bytes of elements that its header says"));
  if constexpr (std::endian::native == std::endian::little)
    files::reverse_bytes_of_each(bytes, got, c10::elementSize(header.dtype));
  return result;
}

}  // namespace tutti::data
