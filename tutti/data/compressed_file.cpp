#include "tutti/data/compressed_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {
namespace {

// No stream of deflate grows more than this many times (zlib's technical notes).
constexpr uint64_t kMaxExpansion = 1032;
constexpr int kGzipWindow = 15 + 16;

std::filesystem::path checked(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorCode::not_found, str("there is no file '", path.string(), "'"));
  return path;
}

bool begins_as_gzip(std::ifstream& file) {
  std::array<char, 2> magic{};
  file.read(magic.data(), magic.size());
  file.clear();
  file.seekg(0);
  return magic == std::array{'\x1f', '\x8b'};
}

}  // namespace

CompressedFile::CompressedFile(const std::filesystem::path& path)
    : path_(checked(path)), file_(path, std::ios::binary), max_bytes_(std::filesystem::file_size(path)) {
  if (!file_) throw Error(ErrorCode::unavailable, str("cannot open '", path.string(), "'"));
  if (!begins_as_gzip(file_)) return;
  max_bytes_ *= kMaxExpansion;
  input_.resize(1 << 16);
  stream_ = std::make_unique<z_stream_s>();
  if (inflateInit2(stream_.get(), kGzipWindow) != Z_OK) throw std::bad_alloc();
}

CompressedFile::~CompressedFile() {
  if (stream_) inflateEnd(stream_.get());
}

size_t CompressedFile::read(void* to, size_t num_bytes) {
  auto* bytes = static_cast<char*>(to);
  if (!stream_) {
    file_.read(bytes, static_cast<std::streamsize>(num_bytes));
    return static_cast<size_t>(file_.gcount());
  }
  size_t done = 0;
  while (done < num_bytes && !finished_)
    done += inflate_to(bytes + done, static_cast<unsigned>(std::min<size_t>(num_bytes - done, 1U << 30)));
  return done;
}

bool CompressedFile::at_end() {
  char byte;
  return read(&byte, 1) == 0 && (!stream_ || stream_->avail_in == 0) &&
         file_.peek() == std::ifstream::traits_type::eof();
}

size_t CompressedFile::inflate_to(void* to, unsigned num_bytes) {
  stream_->next_out = static_cast<Bytef*>(to);
  stream_->avail_out = num_bytes;
  while (stream_->avail_out > 0 && !finished_) {
    if (stream_->avail_in == 0) {
      file_.read(input_.data(), static_cast<std::streamsize>(input_.size()));
      stream_->next_in = reinterpret_cast<Bytef*>(input_.data());
      stream_->avail_in = static_cast<unsigned>(file_.gcount());
    }
    const int code = inflate(stream_.get(), Z_NO_FLUSH);
    finished_ = code == Z_STREAM_END;
    if (code == Z_BUF_ERROR)
      throw Error(ErrorCode::data_loss, str("'", path_.string(), "' is truncated: its compressed data ends after ",
                                            stream_->total_out, " bytes of content"));
    if (code != Z_OK && !finished_)
      throw Error(ErrorCode::data_loss, str("'", path_.string(), "' is damaged after ", stream_->total_out,
                                            " bytes of content: ", stream_->msg ? stream_->msg : "not a gzip stream"));
  }
  return num_bytes - stream_->avail_out;
}

}  // namespace tutti::data
