#include "tutti/files/npy.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>

#include "tutti/core/error.h"
#include "tutti/core/function_ref.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/files/archive.h"
#include "tutti/files/byte_order.h"
#include "tutti/files/new_file.h"
#include "tutti/files/npy_header.h"
#include "tutti/files/packed.h"
#include "tutti/files/zip_writer.h"

namespace tutti::files {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kMaxHeader = 64 * 1024;
// No stream of deflate grows more than this many times (zlib's technical notes).
constexpr uint64_t kMaxExpansion = 1032;
constexpr std::string_view kSuffix = ".npy";

using Read = FunctionRef<size_t(void* to, size_t num_bytes)>;

[[noreturn]] void damaged(const std::string& file, const std::string& what) {
  throw Error(ErrorCode::data_loss, str(file, ' ', what));
}

void check_opened(const std::filesystem::path& path, bool opened, const char* op) {
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorCode::not_found, str(op, ": there is no file '", path.string(), "'"));
  if (!opened) throw Error(ErrorCode::unavailable, str(op, ": cannot open '", path.string(), "'"));
}

NpyHeader read_header(Read read, const std::string& file) {
  std::array<char, 8> start{};
  if (read(start.data(), start.size()) < start.size() || !std::string_view(start.data(), 6).starts_with(kNpyMagic))
    damaged(file, "is no .npy file: it does not begin as one");
  const int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0)
    throw Error(ErrorCode::unimplemented,
                str(file, " is of version ", version, '.', int{start[7]}, " of the format; 1.0 to 3.0 are supported"));
  std::array<uint8_t, 4> size{};
  const size_t width = version == 1 ? 2 : 4;
  if (read(size.data(), width) < width) damaged(file, "ends in its header");
  const size_t length = size_t{size[0]} | size_t{size[1]} << 8 | size_t{size[2]} << 16 | size_t{size[3]} << 24;
  if (length > kMaxHeader)
    damaged(file, str("has a header of ", length, " bytes; at most ", kMaxHeader, " are supported"));
  std::string text(length, '\0');
  if (read(text.data(), length) < length) damaged(file, "ends in its header");
  return parse_npy_header(text, file);
}

// The bytes of all elements, of which the file has at most max_bytes.
uint64_t checked_bytes(const NpyHeader& header, uint64_t max_bytes, const std::string& file) {
  const auto item = static_cast<int64_t>(c10::elementSize(header.dtype));
  int64_t strides = item;  // an axis of size 0 counts as 1 here: LibTorch computes such strides
  bool overflow = false, empty = false;
  for (const int64_t size : header.shape) {
    overflow |= __builtin_mul_overflow(strides, std::max<int64_t>(size, 1), &strides);
    empty |= size == 0;
  }
  const uint64_t num_bytes = empty ? 0 : static_cast<uint64_t>(strides);
  if (overflow || num_bytes > max_bytes)
    damaged(file, str("is truncated or damaged: its header says ", str_list(header.shape), " of ",
                      c10::toString(header.dtype), ", and it has at most ", max_bytes, " bytes"));
  return num_bytes;
}

Tensor read_array(Read read, uint64_t max_bytes, const std::string& file) {
  const NpyHeader header = read_header(read, file);
  const uint64_t num_bytes = checked_bytes(header, max_bytes, file);
  std::vector<int64_t> sizes = header.shape;
  if (header.fortran_order) std::ranges::reverse(sizes);
  Tensor result(at::detail::empty_cpu(sizes, header.dtype));  // plain in an open scope too
  auto* bytes = static_cast<std::byte*>(result.mutable_data_ptr());
  const size_t got = read(bytes, num_bytes);
  if (got < num_bytes)
    damaged(file, str("is truncated: its header says ", num_bytes, " bytes of elements, it has ", got));
  if (std::byte more{}; read(&more, 1) != 0)
    damaged(file, str("has more than the ", num_bytes, " bytes that its header says"));

  const bool is_bool = header.dtype == at::kBool;
  if (is_bool && std::any_of(bytes, bytes + num_bytes, [](std::byte b) { return b > std::byte{1}; }))
    damaged(file, "has a bool that is neither 0 nor 1");
  const size_t width = c10::elementSize(c10::toRealValueType(header.dtype));
  if (header.big_endian) reverse_bytes_of_each(bytes, num_bytes, width);
  if (!header.fortran_order) return result;
  std::vector<int64_t> axes(sizes.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(axes.size() - 1 - i);
  return result.permute(axes).contiguous();
}

// Whether the file is nothing but the end record of a zip without members, which libarchive does not take for a zip.
bool is_empty_zip(const std::filesystem::path& path) {
  constexpr std::string_view kStart("PK\5\6\0\0\0\0\0\0\0\0", 12);
  std::array<char, 23> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  return file.gcount() == 22 && std::string_view(bytes.data(), bytes.size()).starts_with(kStart);
}

// What read_npz gives back as it was: libarchive reads a backslash as a slash.
void check_key(const std::string& key, const std::string& file) {
  constexpr std::string_view kNever("\0\\", 2);
  constexpr size_t kMaxKey = UINT16_MAX - kSuffix.size();  // as a zip file has 16 bits for the length of a name
  if (key.empty()) throw Error(ErrorCode::invalid_argument, str("write_npz: a tensor for '", file, "' has no name"));
  if (!is_utf8(key) || key.find_first_of(kNever) != std::string::npos || key.size() > kMaxKey)
    throw Error(
        ErrorCode::invalid_argument,
        str("write_npz: a tensor for '", file, "' has a name of ", key.size(),
            " bytes that a .npz file can't keep; it must be UTF-8 without zeros and backslashes, and not above ",
            kMaxKey));
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  check_opened(path, stream.is_open(), "read_npy");
  const auto read = [&](void* to, size_t num_bytes) {
    stream.read(static_cast<char*>(to), static_cast<std::streamsize>(num_bytes));
    return static_cast<size_t>(stream.gcount());
  };
  return read_array(read, std::filesystem::file_size(path), str("read_npy: '", path.string(), "'"));
}

std::map<std::string, Tensor> read_npz(const std::filesystem::path& path) {
  if (is_empty_zip(path)) return {};
  ArchiveReader archive(path, ArchiveFormat::zip);
  const uint64_t max_bytes = std::filesystem::file_size(path) * kMaxExpansion;
  std::map<std::string, Tensor> arrays;
  for (std::string member; archive.next(member);) {
    const std::string file = str("read_npz: '", path.string(), "': the member '", member, "'");
    if (!member.ends_with(kSuffix)) damaged(file, "is no .npy file");
    const std::string name = member.substr(0, member.size() - kSuffix.size());
    if (arrays.contains(name)) damaged(file, "is there twice");
    const auto read = [&](void* to, size_t num_bytes) { return archive.read(to, num_bytes); };
    arrays.emplace(name, read_array(read, max_bytes, file));
  }
  return arrays;
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const Tensor values = packed(tensor, "write_npy");
  const std::string header = npy_header(values.scalar_type(), values.sizes().vec());
  NewFile file(path);
  std::ofstream stream(file.part(), std::ios::binary);
  stream << header;
  stream.write(static_cast<const char*>(values.const_data_ptr()), static_cast<std::streamsize>(values.nbytes()));
  stream.close();
  if (!stream) throw Error(ErrorCode::unavailable, str("write_npy: cannot write '", path.string(), "'"));
  file.finish();
}

void write_npz(const std::filesystem::path& path, const std::map<std::string, Tensor>& tensors,
               NpzCompression compression) {
  NewFile file(path);
  const std::string name = path.string();
  ZipWriter zip(file.part(), str("write_npz: '", name, '\''),
                compression == NpzCompression::none ? ZipCompression::none : ZipCompression::deflate);
  for (const auto& [key, tensor] : tensors) {
    check_key(key, name);
    const Tensor values = packed(tensor, "write_npz");
    const std::string header = npy_header(values.scalar_type(), values.sizes().vec());
    zip.begin(key + std::string(kSuffix), header.size() + values.nbytes());
    zip.write(header.data(), header.size());
    zip.write(values.const_data_ptr(), values.nbytes());
  }
  zip.finish();
  file.finish();
}

}  // namespace tutti::files
