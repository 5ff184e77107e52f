#include "tutti/data/compressed_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data {
namespace {

// No stream of deflate grows more than this many times (zlib's technical notes).
constexpr uint64_t kMaxExpansion = 1032;
constexpr size_t kInputBlock = 64 * 1024;
constexpr uint64_t kPiece = uint64_t{64} << 20;

std::filesystem::path checked(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorCode::not_found, str("there is no file '", path.string(), "'"));
  return path;
}

Compression compression_of(const std::filesystem::path& path) {
  std::array<char, 2> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return magic == std::array{'\x1f', '\x8b'} ? Compression::gzip : Compression::none;
}

}  // namespace

CompressedFile::CompressedFile(const std::filesystem::path& path)
    : CompressedFile(path, compression_of(checked(path))) {}

CompressedFile::CompressedFile(const std::filesystem::path& path, Compression compression)
    : path_(checked(path)),
      compression_(compression),
      file_(path, std::ios::binary),
      max_bytes_(std::filesystem::file_size(path)),
      block_(std::make_unique_for_overwrite<char[]>(kInputBlock)) {
  if (!file_) throw Error(ErrorCode::unavailable, str("cannot open '", path.string(), "'"));
  if (compression == Compression::none) return;
  max_bytes_ *= kMaxExpansion;
  input_ = std::make_unique_for_overwrite<char[]>(kInputBlock);
  stream_ = std::make_unique<z_stream_s>();
  if (inflateInit2(stream_.get(), compression_internal::window_bits(compression)) != Z_OK) throw std::bad_alloc();
}

CompressedFile::~CompressedFile() {
  if (stream_) inflateEnd(stream_.get());
}

size_t CompressedFile::read(void* to, size_t num_bytes) {
  auto* bytes = static_cast<char*>(to);
  size_t done = 0;
  while (done < num_bytes) {
    size_t got = copy_from_block(bytes + done, num_bytes - done);
    if (got == 0 && num_bytes - done >= kInputBlock) got = produce(bytes + done, num_bytes - done);
    if (got == 0 && at_end()) break;
    done += got;
    position_ += got;
  }
  return done;
}

std::string CompressedFile::read_string(uint64_t num_bytes) {
  std::string result;
  size_t got = 1;
  while (got > 0 && result.size() < num_bytes) {
    const size_t before = result.size();
    result.resize(before + std::min(num_bytes - before, kPiece));
    got = read(result.data() + before, result.size() - before);
    result.resize(before + got);
  }
  return result;
}

bool CompressedFile::at_end() {
  if (begin_ == end_) {
    begin_ = 0;
    end_ = produce(block_.get(), kInputBlock);
  }
  return begin_ == end_;
}

void CompressedFile::seek(uint64_t position) {
  if (!stream_ && position <= max_bytes_) {
    begin_ = end_ = 0;
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(position));
    position_ = position;
  }
  while (position_ < position && !at_end()) {
    const auto passed = static_cast<size_t>(std::min<uint64_t>(position - position_, end_ - begin_));
    begin_ += passed;
    position_ += passed;
  }
  if (position_ != position)
    throw Error(ErrorCode::data_loss, str("byte ", position, " of '", path_.string(), "' cannot be reached from byte ",
                                          position_, ": its content ends before, or the place was passed"));
}

size_t CompressedFile::copy_from_block(void* to, size_t num_bytes) {
  const size_t count = std::min(num_bytes, end_ - begin_);
  std::memcpy(to, block_.get() + begin_, count);
  begin_ += count;
  return count;
}

// Content from where the block ends, as much as there is before damage; none only at the end.
size_t CompressedFile::produce(void* to, size_t num_bytes) {
  if (!stream_) return read_file(to, num_bytes);
  size_t got = 0;
  while (got == 0 && (!finished_ || begin_member()))
    got = inflate_to(to, static_cast<unsigned>(std::min<size_t>(num_bytes, 1U << 30)));
  return got;
}

size_t CompressedFile::inflate_to(void* to, unsigned num_bytes) {
  stream_->next_out = static_cast<Bytef*>(to);
  stream_->avail_out = num_bytes;
  while (stream_->avail_out > 0 && !finished_) {
    if (stream_->avail_in == 0) {
      stream_->next_in = reinterpret_cast<Bytef*>(input_.get());
      stream_->avail_in = static_cast<unsigned>(read_file(input_.get(), kInputBlock));
    }
    const int code = inflate(stream_.get(), Z_NO_FLUSH);
    finished_ = code == Z_STREAM_END;
    if (code == Z_OK || finished_) continue;
    if (stream_->avail_out < num_bytes) break;  // the next call meets the damage again
    throw Error(ErrorCode::data_loss,
                code == Z_BUF_ERROR ? str("'", path_.string(), "' is truncated: its compressed data ends after ",
                                          stream_->total_out, " bytes of content")
                                    : str("'", path_.string(), "' is damaged after ", stream_->total_out,
                                          " bytes of content: ", stream_->msg ? stream_->msg : "not compressed so"));
  }
  return num_bytes - stream_->avail_out;
}

// After the end of compressed data: whether more follows, which only gzip allows.
bool CompressedFile::begin_member() {
  if (compression_ == Compression::gzip) pass_padding();
  if (stream_->avail_in == 0 && file_.peek() == std::ifstream::traits_type::eof()) return false;
  if (compression_ != Compression::gzip)
    throw Error(ErrorCode::data_loss, str("'", path_.string(), "' has bytes after the end of its compressed data"));
  const uint64_t total_out = stream_->total_out;
  if (inflateReset(stream_.get()) != Z_OK) throw Error(ErrorCode::internal, "inflateReset");
  stream_->total_out = total_out;  // of all members, for the texts of errors
  finished_ = false;
  return true;
}

// Zeros, with which tapes and object stores fill up; gzip passes over them too.
void CompressedFile::pass_padding() {
  while (true) {
    for (; stream_->avail_in > 0; ++stream_->next_in, --stream_->avail_in)
      if (*stream_->next_in != 0) return;
    stream_->next_in = reinterpret_cast<Bytef*>(input_.get());
    stream_->avail_in = static_cast<unsigned>(read_file(input_.get(), kInputBlock));
    if (stream_->avail_in == 0) return;
  }
}

size_t CompressedFile::read_file(void* to, size_t num_bytes) {
  file_.read(static_cast<char*>(to), static_cast<std::streamsize>(num_bytes));
  if (file_.bad()) throw Error(ErrorCode::unavailable, str("cannot read '", path_.string(), "'"));
  return static_cast<size_t>(file_.gcount());
}

}  // namespace tutti::data
