#include "tutti/checkpoint/reader.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <thread>

#include "tutti/checkpoint/box_copy.h"
#include "tutti/checkpoint/parallel.h"
#include "tutti/checkpoint/safetensors_header.h"
#include "tutti/checkpoint/sealed_json.h"
#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/view.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMaxThreads = 8;
constexpr uint64_t kBytesWorthAThread = uint64_t{4} << 20;
constexpr uint64_t kMaxGap = uint64_t{16} << 10;          // bytes that are read though nobody needs them
constexpr uint64_t kMaxCopiedBytes = uint64_t{64} << 20;  // of several destinations that are read together

[[noreturn]] void damaged(const std::string& what) { throw Error(ErrorCode::data_loss, str("checkpoint: ", what)); }

// What a name should lead to, and does not, was lost.
template <class F>
auto expecting(const fs::path& path, F open) {
  try {
    return open();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    damaged(str("'", path.string(), "' is missing: ", error.what()));
  }
}

void check_crc(uint32_t stored, std::span<const std::byte> bytes, FunctionRef<std::string()> what) {
  if (const uint32_t computed = crc32c(bytes.data(), bytes.size()); computed != stored)
    damaged(str(what(), " are damaged: stored CRC32C ", crc_text(stored), ", computed ", crc_text(computed)));
}

// A file of a checkpoint whose length and header are what the index says.
class ShardFile {
 public:
  ShardFile(FileSystem& files, fs::path path, const IndexedFile& indexed)
      : path_(std::move(path)), file_(expecting(path_, [&] { return files.open(path_); })) {
    if (file_->size() != indexed.bytes)
      damaged(str("'", path_.string(), "' has ", file_->size(), " bytes; the index says ", indexed.bytes));
    if (indexed.header_bytes > kSafetensorsLengthBytes + kMaxSafetensorsHeaderBytes)
      damaged(str("'", path_.string(), "' has a header of ", indexed.header_bytes, " bytes, says the index; ",
                  kSafetensorsLengthBytes + kMaxSafetensorsHeaderBytes, " are allowed"));
    header_.resize(indexed.header_bytes);
    file_->read(0, header_);
    check_crc(indexed.header_crc32c, header_,
              [&] { return str("'", path_.string(), "': the ", header_.size(), " bytes of its header"); });
  }

  const fs::path& path() const { return path_; }
  void read(uint64_t offset, std::span<std::byte> bytes) const { file_->read(offset, bytes); }
  SafetensorsHeader parse_header() const { return parse_safetensors_header(header_, file_->size(), path_.string()); }

 private:
  fs::path path_;
  std::unique_ptr<ReadableFile> file_;
  std::vector<std::byte> header_;
};

// A chunk of a shard.
struct Chunk {
  const ShardFile* file;
  const IndexedTensor* tensor;
  const IndexedShard* shard;
  uint64_t begin;  // from the beginning of the shard
  uint64_t end;

  uint64_t size() const { return end - begin; }
  uint64_t offset() const { return shard->offset + begin; }  // in the file

  void read_to(std::byte* to) const {
    file->read(offset(), {to, size()});
    check({to, size()});
  }
  void check(std::span<const std::byte> bytes) const {
    check_crc(shard->crc32c[begin / kChunkBytes], bytes, [&] {
      return str("'", file->path().string(), "', tensor '", tensor->name, "', shard ", shard->region.to_string(),
                 ": the bytes from ", offset(), " to ", offset() + size());
    });
  }
};

std::byte* thread_buffer() {
  thread_local std::vector<std::byte> buffer(kChunkBytes);
  return buffer.data();
}

// A shard's part of a destination.
struct Transfer {
  const ShardFile* file;
  const IndexedTensor* tensor;
  const IndexedShard* shard;
  BoxCopy copy;
  std::byte* destination;

  Chunk chunk(size_t number) const {
    return {file, tensor, shard, number * kChunkBytes, std::min((number + 1) * kChunkBytes, shard->bytes)};
  }
  bool needs(const Chunk& chunk) const { return copy.touches(chunk.begin, chunk.end); }
};

// A chunk that a transfer needs.
struct Use {
  const Transfer* transfer;
  Chunk chunk;

  void read_alone() const {
    const int64_t place = transfer->copy.place_of(chunk.begin, chunk.end);
    if (place >= 0) return chunk.read_to(transfer->destination + place);
    chunk.read_to(thread_buffer());
    scatter(thread_buffer());
  }
  void scatter(const std::byte* from) const {
    transfer->copy.scatter(chunk.begin, {from, chunk.size()}, transfer->destination);
  }
};

// Reads once what the uses need, which lies within the bytes of a thread's buffer and is in the order of the file.
void read_together(std::span<const Use> uses) {
  if (uses.size() == 1) return uses.front().read_alone();
  const uint64_t begin = uses.front().chunk.offset();
  const uint64_t end = uses.back().chunk.offset() + uses.back().chunk.size();
  std::byte* buffer = thread_buffer();
  uses.front().chunk.file->read(begin, {buffer, end - begin});
  const std::byte* checked = nullptr;
  for (const Use& use : uses) {
    const std::byte* bytes = buffer + (use.chunk.offset() - begin);
    if (bytes != checked) use.chunk.check({bytes, use.chunk.size()});
    checked = bytes;
    use.scatter(bytes);
  }
}

// The uses, ordered by file and offset, as runs for read_together, without large gaps between them.
std::vector<std::span<const Use>> runs_of(std::vector<Use>& uses) {
  std::ranges::sort(uses, {}, [](const Use& use) { return std::pair(use.chunk.file, use.chunk.offset()); });
  std::vector<std::span<const Use>> runs;
  for (size_t first = 0, i = 0; i < uses.size(); first = i) {
    const Chunk& begin = uses[first].chunk;
    uint64_t end = begin.offset();  // of the run
    const auto fits = [&](const Chunk& chunk) {
      return chunk.file == begin.file && chunk.offset() <= end + kMaxGap &&
             chunk.offset() + chunk.size() - begin.offset() <= kChunkBytes;
    };
    for (; i < uses.size() && fits(uses[i].chunk); ++i) end = uses[i].chunk.offset() + uses[i].chunk.size();
    runs.emplace_back(uses.data() + first, i - first);
  }
  return runs;
}

int threads_for(uint64_t bytes) {
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads);
  return static_cast<int>(std::min<uint64_t>(cores, bytes / kBytesWorthAThread + 1));
}

// Where the bytes of a destination go: to its own memory where that is row-major, else to a copy that is written to it
// when all is read.
class Destination {
 public:
  explicit Destination(const Tensor& tensor) : tensor_(tensor), host_(tensor) {
    if (!needs_copy(tensor)) return;
    host_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous));
  }

  static bool needs_copy(const Tensor& tensor) {
    return !tensor.is_cpu() || !tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg();
  }

  std::byte* bytes() const { return static_cast<std::byte*>(host_.mutable_data_ptr()); }
  void finish() const {
    const at::NoGradGuard no_grad;
    if (!host_.is_same(tensor_))
      tensor_.detach().copy_(host_);
    else if (!tensor_.is_inference())
      tensor_.unsafeGetTensorImpl()->bump_version();
  }

 private:
  Tensor tensor_;
  Tensor host_;
};

// A request that was checked.
struct Wanted {
  const IndexedTensor* tensor;
  const Piece* piece;
};

}  // namespace

struct Reader::State {
  fs::path folder;
  Index index;
  std::vector<ShardFile> files;

  const IndexedTensor* find(const std::string& name) const {
    const auto found = std::ranges::lower_bound(index.tensors, name, {}, &IndexedTensor::name);
    return found == index.tensors.end() || found->name != name ? nullptr : &*found;
  }

  const IndexedTensor& require(const std::string& name) const {
    if (const IndexedTensor* found = find(name)) return *found;
    throw Error(ErrorCode::not_found,
                str("checkpoint: '", folder.string(), "' has no tensor '", name, "' among its ", index.tensors.size()));
  }

  void check(const IndexedTensor& tensor, const Piece& piece) const;
  void verify_header(size_t file) const;
  void read(std::span<const Wanted> wanted) const;
};

void Reader::State::check(const IndexedTensor& tensor, const Piece& piece) const {
  const Region& region = piece.region;
  bool inside = region.sizes.size() == tensor.sizes.size() && region.first.size() == tensor.sizes.size();
  for (size_t axis = 0; inside && axis < tensor.sizes.size(); ++axis)
    inside = region.first[axis] >= 0 && region.sizes[axis] >= 0 && region.first[axis] <= tensor.sizes[axis] &&
             region.sizes[axis] <= tensor.sizes[axis] - region.first[axis];
  if (!inside)
    throw Error(ErrorCode::invalid_argument, str("checkpoint: the region ", region.to_string(), " is not inside '",
                                                 tensor.name, "' of shape ", str_list(tensor.sizes)));
  const Tensor& destination = piece.tensor;
  if (destination.sizes() != at::IntArrayRef(region.sizes) || destination.scalar_type() != tensor.dtype)
    throw Error(ErrorCode::invalid_argument,
                str("checkpoint: ", region.to_string(), " of '", tensor.name, "', which is ",
                    c10::toString(tensor.dtype), ", into a ", c10::toString(destination.scalar_type()),
                    " tensor of shape ", str_list(destination.sizes()), "; shape and dtype must be the same"));
}

// Those who read the file by its own header must find what the index describes.
void Reader::State::verify_header(size_t file) const {
  const SafetensorsHeader header = files[file].parse_header();
  std::vector<SafetensorsEntry> indexed;
  for (const IndexedTensor& tensor : index.tensors)
    for (const IndexedShard& shard : tensor.shards)
      if (shard.file == file)
        indexed.push_back(
            safetensors_entry(tensor.name, tensor.dtype, shard.region.sizes, shard.offset - header.data_begin));
  std::ranges::sort(indexed, {}, &SafetensorsEntry::place);
  if (header.data_begin != index.files[file].header_bytes || header.entries != indexed)
    damaged(str("the header of '", files[file].path().string(), "' and the index do not say the same"));
}

Reader::Reader(FileSystem& files, fs::path folder) {
  if (!files.exists(folder)) throw Error(ErrorCode::not_found, str("checkpoint: there is no '", folder.string(), "'"));
  auto state = std::make_unique<State>();
  const fs::path index = folder / kIndexName;
  const std::string text = expecting(index, [&] { return read_text(files, index, kMaxIndexBytes); });
  state->index = parse_index(text, str("checkpoint: '", index.string(), "'"));
  for (const IndexedFile& file : state->index.files) state->files.emplace_back(files, folder / file.name, file);
  state->folder = std::move(folder);
  state_ = std::move(state);
}

Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

const fs::path& Reader::folder() const { return state_->folder; }
int64_t Reader::step() const { return state_->index.step; }
const std::map<std::string, Value>& Reader::values() const { return state_->index.values; }
const std::vector<IndexedTensor>& Reader::tensors() const { return state_->index.tensors; }
const IndexedTensor* Reader::find(const std::string& name) const { return state_->find(name); }

void Reader::read(const std::vector<Request>& requests) const {
  const ThreadViewGuard no_scope({});  // tensors made here are plain
  std::vector<Wanted> wanted;
  for (const auto& [name, piece] : requests) {
    wanted.push_back({&state_->require(name), &piece});
    state_->check(*wanted.back().tensor, piece);
  }
  size_t first = 0;
  uint64_t copied = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Tensor& destination = wanted[i].piece->tensor;
    if (!Destination::needs_copy(destination)) continue;
    copied += destination.nbytes();
    if (copied <= kMaxCopiedBytes || i == first) continue;
    state_->read(std::span(wanted).subspan(first, i - first));
    first = i;
    copied = destination.nbytes();
  }
  state_->read(std::span(wanted).subspan(first));
}

void Reader::State::read(std::span<const Wanted> wanted) const {
  std::vector<Destination> destinations;
  std::vector<Transfer> transfers;
  for (const auto& [tensor, piece] : wanted) {
    if (piece->region.numel() == 0) continue;
    destinations.emplace_back(piece->tensor);
    std::byte* bytes = destinations.back().bytes();
    for (const IndexedShard& shard : tensor->shards)
      transfers.push_back({&files[shard.file], tensor, &shard,
                           BoxCopy(shard.region, piece->region, c10::elementSize(tensor->dtype)), bytes});
  }

  std::vector<Use> uses;
  uint64_t bytes = 0;
  for (const Transfer& transfer : transfers)
    for (size_t number = 0; number < transfer.shard->crc32c.size(); ++number) {
      const Chunk chunk = transfer.chunk(number);
      if (!transfer.needs(chunk)) continue;
      uses.push_back({&transfer, chunk});
      bytes += chunk.size();
    }
  const auto runs = runs_of(uses);
  for_each_item(runs.size(), threads_for(bytes), [&](size_t i) { read_together(runs[i]); });
  for (const Destination& destination : destinations) destination.finish();
}

void Reader::read(const std::string& name, const Region& region, const Tensor& destination) const {
  read(std::vector<Request>{{name, {region, destination}}});
}

void Reader::read(const std::string& name, const Tensor& destination) const {
  const IndexedTensor& tensor = state_->require(name);
  if (destination.sizes() != at::IntArrayRef(tensor.sizes))
    throw Error(ErrorCode::invalid_argument, str("checkpoint: '", name, "' of shape ", str_list(tensor.sizes),
                                                 " into a tensor of shape ", str_list(destination.sizes())));
  std::vector<Request> requests;
  for (Piece& piece : pieces_to_write(destination)) requests.push_back({name, std::move(piece)});
  read(requests);
}

Tensor Reader::read(const std::string& name) const {
  const ThreadViewGuard no_scope({});
  const IndexedTensor& tensor = state_->require(name);
  Tensor result = at::empty(tensor.sizes, tensor.dtype);
  read(name, Region::whole(tensor.sizes), result);
  return result;
}

void Reader::verify() const {
  for (size_t file = 0; file < state_->files.size(); ++file) state_->verify_header(file);
  std::vector<Chunk> chunks;
  uint64_t bytes = 0;
  for (const IndexedTensor& tensor : tensors())
    for (const IndexedShard& shard : tensor.shards) {
      bytes += shard.bytes;
      for (uint64_t begin = 0; begin < shard.bytes; begin += kChunkBytes)
        chunks.push_back(
            {&state_->files[shard.file], &tensor, &shard, begin, std::min(begin + kChunkBytes, shard.bytes)});
    }
  for_each_item(chunks.size(), threads_for(bytes), [&](size_t i) { chunks[i].read_to(thread_buffer()); });
}

}  // namespace tutti::checkpoint
