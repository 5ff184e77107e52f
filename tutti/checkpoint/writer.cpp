#include "tutti/checkpoint/writer.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "tutti/checkpoint/host_bytes.h"
#include "tutti/checkpoint/index.h"
#include "tutti/checkpoint/new_directory.h"
#include "tutti/checkpoint/parallel.h"
#include "tutti/checkpoint/reader.h"
#include "tutti/checkpoint/safetensors_header.h"
#include "tutti/checkpoint/shared_write.h"
#include "tutti/core/bytes.h"
#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/tensor/view.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

// --- checks ----------------------------------------------------------------------------------------------------------

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, str("checkpoint: ", what));
}

void check_pieces(const NamedTensor& tensor) {
  c10::SmallVector<const Region*, 16> regions;
  for (const Piece& piece : tensor.pieces) {
    if (piece.tensor.defined() &&
        (piece.tensor.sizes() != at::IntArrayRef(piece.region.sizes) || piece.tensor.scalar_type() != tensor.dtype))
      refuse(str("piece ", piece.region.to_string(), " of '", tensor.name, "', ", c10::toString(tensor.dtype),
                 ", is a ", c10::toString(piece.tensor.scalar_type()), " tensor of shape ",
                 str_list(piece.tensor.sizes())));
    regions.push_back(&piece.region);
  }
  if (!is_grid_of(regions, tensor.sizes))
    refuse(str("the ", regions.size(), " pieces of '", tensor.name, "' do not make up its shape ",
               str_list(tensor.sizes)));
}

void check(const Contents& contents) {
  std::set<std::string_view> names;
  for (const NamedTensor& tensor : contents.tensors) {
    if (tensor.name.empty() || tensor.name == "__metadata__")
      refuse(str("a tensor can't have the name '", tensor.name, "'"));
    if (!is_utf8(tensor.name) || !is_utf8(tensor.layout)) refuse(str("the name '", tensor.name, "' is not UTF-8"));
    if (!names.insert(tensor.name).second) refuse(str("two tensors have the name '", tensor.name, "'"));
    check_pieces(tensor);
  }
  for (const auto& [name, value] : contents.values) {
    const auto* text = std::get_if<std::string>(&value);
    if (!is_utf8(name) || (text && !is_utf8(*text)))
      refuse(str("the value '", name, "' is not UTF-8; bytes can be kept as a uint8 tensor"));
  }
}

// Nothing that is the user's is replaced.
void check_place(FileSystem& files, const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (name.empty() || name == "." || name == "..")
    refuse(str("can't be written to '", folder.string(), "': its last part must be a name; drop the '/' at its end"));
  if (!files.exists(folder)) return;
  const auto taken = [&](const std::string& what) {
    throw Error(ErrorCode::already_exists, str("checkpoint: '", folder.string(), "' ", what,
                                               ", and is not replaced. Give another name, or move it away"));
  };
  if (!is_checkpoint(files, folder)) taken("is no checkpoint");
  for (const DirectoryEntry& entry : files.list(folder))
    if (entry.name != kIndexName && !is_file_name(entry.name)) taken(str("has '", entry.name, "' in it"));
}

// --- the plan --------------------------------------------------------------------------------------------------------

// A shard to be written: where it comes from, and its place in the index.
struct PlannedShard {
  size_t number, piece_number;  // of the tensor, and of its piece
  const NamedTensor* tensor;
  const Piece* piece;
  IndexedShard* indexed;
};

struct PlannedFile {
  int writer;  // the rank of the process
  std::vector<PlannedShard> shards;
  std::string header = {};
};

// Which of several processes writes each tensor that all have: the one that writes least so far.
std::vector<int> deal(const Contents& contents, int num_writers) {
  std::vector<int> writers;
  std::vector<int64_t> bytes(static_cast<size_t>(num_writers));
  for (const NamedTensor& tensor : contents.tensors) {
    const auto least = std::ranges::min_element(bytes);
    for (const Piece& piece : tensor.pieces) {
      int64_t& writer = piece.owner < 0 ? *least : bytes[static_cast<size_t>(piece.owner)];
      writer += piece.region.numel() * static_cast<int64_t>(c10::elementSize(tensor.dtype));
    }
    writers.push_back(static_cast<int>(least - bytes.begin()));
  }
  return writers;
}

// Gives each shard of a file its place; returns the file's header.
std::string lay_out(const std::vector<PlannedShard>& shards, Index& index) {
  SafetensorsHeader header;
  uint64_t end = 0;
  for (const PlannedShard& shard : shards) {
    header.entries.push_back(
        safetensors_entry(shard.tensor->name, shard.tensor->dtype, shard.piece->region.sizes, end));
    end = header.entries.back().end;
  }
  std::string text = safetensors_header_text(header);
  for (size_t i = 0; i < shards.size(); ++i) {
    const SafetensorsEntry& entry = header.entries[i];
    *shards[i].indexed = {.file = index.files.size(),
                          .offset = text.size() + entry.begin,
                          .bytes = entry.end - entry.begin,
                          .region = shards[i].piece->region};
  }
  index.files.push_back({.name = file_name(index.files.size()),
                         .bytes = text.size() + end,
                         .header_bytes = text.size(),
                         .header_crc32c = crc32c(text.data(), text.size())});
  return text;
}

// Of each writer: the first piece of each tensor goes to the first file, the second to the second: names are unique in
// a file, and there are as many files as the most split tensor has pieces.
std::vector<PlannedFile> plan_files(const Contents& contents, int num_writers, Index& index) {
  std::map<std::pair<size_t, int>, PlannedFile> files;  // by piece and writer
  const std::vector<int> writers = deal(contents, num_writers);
  for (const NamedTensor& tensor : contents.tensors)
    index.tensors.push_back({.name = std::pmr::string(tensor.name),
                             .dtype = tensor.dtype,
                             .sizes = Region::Axes(tensor.sizes),
                             .layout = tensor.layout,
                             .shards = std::pmr::vector<IndexedShard>(tensor.pieces.size())});
  for (size_t i = 0; i < contents.tensors.size(); ++i) {
    const NamedTensor& tensor = contents.tensors[i];
    for (size_t piece = 0; piece < tensor.pieces.size(); ++piece) {
      const int owner = tensor.pieces[piece].owner, writer = owner < 0 ? writers[i] : owner;
      PlannedFile& file = files.try_emplace({piece, writer}, PlannedFile{.writer = writer, .shards = {}}).first->second;
      file.shards.push_back({i, piece, &tensor, &tensor.pieces[piece], &index.tensors[i].shards[piece]});
    }
  }
  std::vector<PlannedFile> plan;
  for (auto& [key, file] : files) {
    // Wide elements first: all are aligned then.
    std::ranges::stable_sort(file.shards, std::greater(),
                             [](const PlannedShard& shard) { return c10::elementSize(shard.tensor->dtype); });
    file.header = lay_out(file.shards, index);
    plan.push_back(std::move(file));
  }
  return plan;
}

void check_room(FileSystem& files, const fs::path& directory, const Index& index) {
  uint64_t needed = uint64_t{1} << 16;  // the index and the directory
  for (const IndexedFile& file : index.files) needed += file.bytes;
  for (const IndexedTensor& tensor : index.tensors)
    for (const IndexedShard& shard : tensor.shards)
      needed += 2 * tensor.name.size() + 256 + 11 * num_chunks(shard.bytes);
  if (const uint64_t available = files.available_bytes(directory); available < needed)
    throw Error(ErrorCode::resource_exhausted,
                str("checkpoint: ", needed, " bytes are to be saved, and the disk of '", directory.string(),
                    "' has room for ", available, ". Make room, or keep fewer checkpoints"));
}

// --- writing ---------------------------------------------------------------------------------------------------------

constexpr size_t kChunksPerThread = 8;

// A file that is written in pieces of at least one chunk: many small tensors cost few system calls.
class PackedFile {
 public:
  explicit PackedFile(std::unique_ptr<WritableFile> file) : file_(std::move(file)) { buffer_.reserve(kChunkBytes); }

  void append(std::span<const std::byte> bytes) {
    if (buffer_.size() + bytes.size() > kChunkBytes) flush();
    if (bytes.size() >= kChunkBytes)
      file_->write(bytes);
    else
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }

  void finish() {
    flush();
    file_->sync();
  }

 private:
  void flush() {
    if (!buffer_.empty()) file_->write(buffer_);
    buffer_.clear();
  }

  std::unique_ptr<WritableFile> file_;
  std::vector<std::byte> buffer_;
};

// Each chunk is read for its checksum, then written while it is in the cache; for this the threads take a few at a
// time.
void append_shard(PackedFile& file, const PlannedShard& shard, size_t num_threads) {
  const Tensor host = to_host(shard.piece->tensor);
  const std::span<const std::byte> bytes = bytes_of(host);
  const size_t count = num_chunks(bytes.size()), at_once = num_threads > 1 ? kChunksPerThread * num_threads : 1;
  const auto chunk = [&](size_t i) {
    return bytes.subspan(i * kChunkBytes, std::min<size_t>(kChunkBytes, bytes.size() - i * kChunkBytes));
  };
  auto& checksums = shard.indexed->crc32c;
  checksums.resize(count);
  for (size_t begin = 0; begin < count; begin += at_once) {
    const size_t end = std::min(count, begin + at_once);
    const auto threads = static_cast<int>(std::min(num_threads, end - begin));
    for_each_item(end - begin, threads,
                  [&](size_t i) { checksums[begin + i] = crc32c(chunk(begin + i).data(), chunk(begin + i).size()); });
    for (size_t i = begin; i < end; ++i) file.append(chunk(i));
  }
}

void write_file(FileSystem& files, const fs::path& path, const std::string& text) {
  const auto file = files.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->sync();
}

// The files that are `writer`'s. Their checksums are in the index then.
void write_files(FileSystem& files, const fs::path& directory, const std::vector<PlannedFile>& plan, int writer,
                 const Index& index, const WriteOptions& options) {
  const size_t num_threads = options.beside_work ? 1 : std::max(1U, std::thread::hardware_concurrency());
  for (size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].writer != writer) continue;
    const fs::path path = directory / index.files[i].name;
    PackedFile file(options.beside_work ? files.create_uncached(path) : files.create(path));
    file.append(std::as_bytes(std::span(plan[i].header)));
    for (const PlannedShard& shard : plan[i].shards) {
      append_shard(file, shard, num_threads);
      if (options.written) options.written(shard.number, shard.piece_number);
    }
    file.finish();
  }
}

// Calls f(shard) for those that `writer` writes, in the order of the plan.
template <class F>
void for_each_shard_of(const std::vector<PlannedFile>& plan, int writer, F f) {
  for (const PlannedFile& file : plan)
    if (file.writer == writer)
      for (const PlannedShard& shard : file.shards) f(shard);
}

// What a process tells the others of its share: that it writes the same checkpoint, and its checksums.
std::vector<uint8_t> share_text(const std::vector<PlannedFile>& plan, int writer, const Index& index) {
  ByteWriter text;
  for (const IndexedFile& file : index.files) text.number(file.header_crc32c);
  for_each_shard_of(plan, writer, [&](const PlannedShard& shard) {
    for (const uint32_t checksum : shard.indexed->crc32c) text.number(checksum);
  });
  return text.bytes();
}

void take_share(const std::vector<uint8_t>& text, const std::vector<PlannedFile>& plan, int writer, const Index& index,
                const std::string& whose) {
  ByteReader reader(text, "the share of " + whose);
  bool is_same = text.size() >= index.files.size() * sizeof(int64_t);
  for (size_t i = 0; is_same && i < index.files.size(); ++i) is_same = reader.number() == index.files[i].header_crc32c;
  if (!is_same)
    throw Error(ErrorCode::failed_precondition,
                str("checkpoint: ", whose, " has other objects to save than the chief; all processes save the same"));
  for_each_shard_of(plan, writer, [&](const PlannedShard& shard) {
    shard.indexed->crc32c.resize(num_chunks(shard.indexed->bytes));
    for (uint32_t& checksum : shard.indexed->crc32c) checksum = static_cast<uint32_t>(reader.number());
  });
  reader.finish();
}

}  // namespace

void write_share(FileSystem& files, const fs::path& directory, const Contents& contents, SharedWrite& shared) {
  const GlobalViewGuard no_scope;
  Index index;
  const auto plan = plan_files(contents, shared.size(), index);
  shared.exchange([&] {
    if (!files.is_directory(directory))
      throw Error(ErrorCode::not_found, str("the directory '", directory.string(),
                                            "' is not seen; a checkpoint is written where all processes see it"));
    write_files(files, directory, plan, shared.rank(), index, {});
    return share_text(plan, shared.rank(), index);
  });
}

void write(FileSystem& files, const fs::path& folder, const Contents& contents, const WriteOptions& options) {
  const GlobalViewGuard no_scope;  // tensors made here are plain
  check(contents);
  check_place(files, folder);
  Index index{.step = contents.step, .values = contents.values};
  SharedWrite* const shared = options.shared;
  if (!shared) std::ranges::for_each(contents.tensors, require_all_here);
  const auto plan = plan_files(contents, shared ? shared->size() : 1, index);
  check_room(files, directory_of(folder), index);

  NewDirectory directory(files, folder);
  const auto write_own = [&] { write_files(files, directory.path(), plan, 0, index, options); };
  if (shared) {
    shared->begin(directory.path());
    const auto shares = shared->exchange([&] { return write_own(), share_text(plan, 0, index); });
    for (int writer = 0; writer < shared->size(); ++writer)
      take_share(shares[static_cast<size_t>(writer)], plan, writer, index, shared->task_name(writer));
  } else {
    write_own();
  }
  write_file(files, directory.path() / kIndexName, index_text(index));
  directory.commit();
}

}  // namespace tutti::checkpoint
