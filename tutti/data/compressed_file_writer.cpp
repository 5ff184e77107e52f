#include "tutti/data/compressed_file_writer.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/log.h"
#include "tutti/core/str.h"
#include "tutti/files/sync.h"

namespace tutti::data {
namespace {

constexpr size_t kOutputBlock = 256 * 1024;
constexpr int kMemoryLevel = 9;  // TensorFlow's choice, which the compressed bytes depend on

}  // namespace

CompressedFileWriter::CompressedFileWriter(const std::filesystem::path& path, Compression compression, int level)
    : path_(path) {
  if (level < -1 || level > 9)
    throw Error(ErrorCode::invalid_argument, str("a compression level is -1 (the default) or 0 to 9, not ", level));
  if (compression != Compression::none) {
    stream_ = std::make_unique<z_stream_s>();
    output_ = std::make_unique_for_overwrite<char[]>(kOutputBlock);
    if (deflateInit2(stream_.get(), level, Z_DEFLATED, compression_internal::window_bits(compression), kMemoryLevel,
                     Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  file_ = std::fopen(path.c_str(), "wb");
  if (!file_) {
    const int error = errno;
    if (stream_) deflateEnd(stream_.get());
    throw Error(error == ENOENT ? ErrorCode::not_found : ErrorCode::unavailable,
                str("cannot create '", path.string(), "': ", std::strerror(error)));
  }
  std::setvbuf(file_, nullptr, _IOFBF, kOutputBlock);
}

CompressedFileWriter::~CompressedFileWriter() {
  try {
    if (file_) close();
  } catch (const Error& error) {
    warn(error.what());
  }
  if (stream_) deflateEnd(stream_.get());
}

void CompressedFileWriter::write(const void* bytes, size_t num_bytes) {
  check_open();
  if (!stream_) return write_file(bytes, num_bytes);
  const auto* at = static_cast<const Bytef*>(bytes);
  while (num_bytes > 0) {
    const size_t piece = std::min<size_t>(num_bytes, 1U << 30);
    stream_->next_in = const_cast<Bytef*>(at);  // zlib only reads there
    stream_->avail_in = static_cast<unsigned>(piece);
    deflate_to_file(Z_NO_FLUSH);
    at += piece;
    num_bytes -= piece;
  }
}

void CompressedFileWriter::flush() {
  check_open();
  if (stream_) deflate_to_file(Z_SYNC_FLUSH);
  if (std::fflush(file_) != 0) fail("write");
}

void CompressedFileWriter::close() {
  check_open();
  if (stream_) deflate_to_file(Z_FINISH);
  if (std::fflush(file_) != 0) fail("write");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> closed(std::exchange(file_, nullptr), &std::fclose);
  files::sync_file(fileno(closed.get()), path_);
}

void CompressedFileWriter::check_open() const {
  if (!file_)
    throw Error(ErrorCode::failed_precondition,
                str("'", path_.string(), "' was closed, or an earlier write to it failed"));
}

void CompressedFileWriter::deflate_to_file(int flush) {
  do {
    stream_->next_out = reinterpret_cast<Bytef*>(output_.get());
    stream_->avail_out = kOutputBlock;
    deflate(stream_.get(), flush);  // cannot fail: its arguments are right
    write_file(output_.get(), kOutputBlock - stream_->avail_out);
  } while (stream_->avail_out == 0);
  stream_->next_in = nullptr;
}

void CompressedFileWriter::write_file(const void* bytes, size_t num_bytes) {
  if (std::fwrite(bytes, 1, num_bytes, file_) != num_bytes) fail("write");
}

void CompressedFileWriter::fail(const char* what) {
  const int error = errno;
  if (file_) std::fclose(std::exchange(file_, nullptr));
  throw Error(ErrorCode::unavailable,
              str("cannot ", what, " '", path_.string(), "': ", std::strerror(error), "; the file is not whole"));
}

}  // namespace tutti::data
