#include "tutti/data/idx.h"

#include <ATen/ops/empty.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {
namespace {

// No stream of deflate grows more than this many times (zlib's technical notes), so a header that asks for more than
// the file can hold is known to lie before memory is allocated.
constexpr uint64_t kMaxExpansion = 1032;

constexpr size_t kMaxAxes = 16;

[[noreturn]] void damaged(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::data_loss, str("read_idx: '", path.string(), "' ", what));
}

// A file read through zlib, which passes plain files on as they are.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path) : path_(path) {
    if (!std::filesystem::is_regular_file(path))
      throw Error(ErrorCode::not_found, str("read_idx: there is no file '", path.string(), "'"));
    file_ = gzopen(path.c_str(), "rb");
    if (!file_)
      throw Error(ErrorCode::unavailable, str("read_idx: cannot open '", path.string(), "': ", std::strerror(errno)));
  }
  ~InputFile() { gzclose_r(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Reads up to `size` bytes; fewer only at the end of the file.
  size_t read(void* to, size_t size) {
    size_t done = 0;
    while (done < size) {
      const auto piece = static_cast<unsigned>(std::min<size_t>(size - done, 1U << 30));
      const int count = gzread(file_, static_cast<std::byte*>(to) + done, piece);
      check();
      if (count <= 0) break;
      done += static_cast<size_t>(count);
    }
    return done;
  }

  // The most bytes that the file can hold, once some have been read.
  uint64_t max_bytes() const {
    const uint64_t stored = std::filesystem::file_size(path_);
    return gzdirect(file_) ? stored : stored * kMaxExpansion;
  }

 private:
  void check() {
    int code = Z_OK;
    const char* message = gzerror(file_, &code);
    if (code == Z_BUF_ERROR)
      damaged(path_, str("ends in the middle of its compressed data, after ", gzoffset(file_), " bytes"));
    if (code != Z_OK && code != Z_STREAM_END) damaged(path_, str("cannot be read: ", message));
  }

  std::filesystem::path path_;
  gzFile file_;
};

struct Header {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
  uint64_t num_bytes;  // of the elements
};

at::ScalarType dtype_of(uint8_t code, const std::filesystem::path& path) {
  switch (code) {
    case 0x08:
      return at::kByte;
    case 0x09:
      return at::kChar;
    case 0x0B:
      return at::kShort;
    case 0x0C:
      return at::kInt;
    case 0x0D:
      return at::kFloat;
    case 0x0E:
      return at::kDouble;
  }
  damaged(path, str("has the element type ", int{code}, ", which IDX doesn't know"));
}

Header read_header(InputFile& file, const std::filesystem::path& path) {
  std::array<uint8_t, 4> magic;
  const size_t got = file.read(magic.data(), magic.size());
  if (got < magic.size()) damaged(path, str("has ", got, " bytes; the header alone has more"));
  if (magic[0] != 0 || magic[1] != 0) damaged(path, "is not an IDX file: it doesn't begin with two zero bytes");
  const size_t axes = magic[3];
  if (axes < 1 || axes > kMaxAxes) damaged(path, str("has ", axes, " axes; 1 to ", kMaxAxes, " are supported"));

  Header header{
      .dtype = dtype_of(magic[2], path), .sizes = {}, .num_bytes = c10::elementSize(dtype_of(magic[2], path))};
  bool overflow = false;
  for (size_t axis = 0; axis < axes; ++axis) {
    std::array<uint8_t, 4> bytes;
    if (file.read(bytes.data(), bytes.size()) < bytes.size()) damaged(path, "ends in its header");
    const uint32_t size = uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
    header.sizes.push_back(size);
    overflow |= __builtin_mul_overflow(header.num_bytes, uint64_t{size}, &header.num_bytes);
  }
  if (overflow || header.num_bytes > file.max_bytes())
    damaged(path, str("says that its shape is ", str_list(header.sizes), ", which its ",
                      std::filesystem::file_size(path), " bytes cannot hold"));
  return header;
}

void reverse_bytes_of_each(std::byte* bytes, size_t num_bytes, size_t width) {
  for (std::byte* end = bytes + num_bytes; bytes != end; bytes += width) std::reverse(bytes, bytes + width);
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path) {
  InputFile file(path);
  const Header header = read_header(file, path);
  Tensor result = at::empty(header.sizes, header.dtype);
  auto* bytes = static_cast<std::byte*>(result.mutable_data_ptr());
  const size_t got = file.read(bytes, header.num_bytes);
  if (got < header.num_bytes)
    damaged(path, str("is truncated: its header says ", header.num_bytes, " bytes of elements (",
                      str_list(header.sizes), "), it has ", got));
  std::byte more;
  if (file.read(&more, 1) > 0)
    damaged(path, str("has more than the ", header.num_bytes, " bytes of elements that its header says"));
  if constexpr (std::endian::native == std::endian::little)
    reverse_bytes_of_each(bytes, got, c10::elementSize(header.dtype));
  return result;
}

}  // namespace tutti::data
