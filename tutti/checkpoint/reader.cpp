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

  void read_to(std::byte* to) const {
    const std::span bytes(to, end - begin);
    file->read(shard->offset + begin, bytes);
    check_crc(shard->crc32c[begin / kChunkBytes], bytes, [&] {
      return str("'", file->path().string(), "', tensor '", tensor->name, "', shard ", shard->region.to_string(),
                 ": the bytes from ", shard->offset + begin, " to ", shard->offset + end);
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

  bool needs(size_t chunk) const { return copy.touches(chunk * kChunkBytes, end_of(chunk)); }
  void run(size_t chunk) const {
    const uint64_t begin = chunk * kChunkBytes, end = end_of(chunk);
    const Chunk bytes{file, tensor, shard, begin, end};
    if (const int64_t place = copy.place_of(begin, end); place >= 0) return bytes.read_to(destination + place);
    std::byte* buffer = thread_buffer();
    bytes.read_to(buffer);
    copy.scatter(begin, {buffer, end - begin}, destination);
  }

 private:
  uint64_t end_of(size_t chunk) const { return std::min((chunk + 1) * kChunkBytes, shard->bytes); }
};

int threads_for(uint64_t bytes) {
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads);
  return static_cast<int>(std::min<uint64_t>(cores, bytes / kBytesWorthAThread + 1));
}

// Where the bytes of a destination go: to its own memory where that is row-major, else to a copy that is written to it
// when all is read.
class Destination {
 public:
  explicit Destination(const Tensor& tensor) : tensor_(tensor), host_(tensor) {
    if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) return;
    host_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous));
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
  std::vector<Destination> destinations;
  std::vector<Transfer> transfers;
  std::vector<const IndexedTensor*> tensors;
  for (const auto& [name, piece] : requests) {
    tensors.push_back(&state_->require(name));
    state_->check(*tensors.back(), piece);
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const Piece& piece = requests[i].destination;
    const IndexedTensor& tensor = *tensors[i];
    if (piece.region.numel() == 0) continue;
    destinations.emplace_back(piece.tensor);
    std::byte* bytes = destinations.back().bytes();
    for (const IndexedShard& shard : tensor.shards)
      transfers.push_back({&state_->files[shard.file], &tensor, &shard,
                           BoxCopy(shard.region, piece.region, c10::elementSize(tensor.dtype)), bytes});
  }

  std::vector<std::pair<const Transfer*, size_t>> chunks;
  uint64_t bytes = 0;
  for (const Transfer& transfer : transfers)
    for (size_t chunk = 0; chunk < transfer.shard->crc32c.size(); ++chunk)
      if (transfer.needs(chunk)) {
        chunks.emplace_back(&transfer, chunk);
        bytes += std::min(kChunkBytes, transfer.shard->bytes);
      }
  for_each_item(chunks.size(), threads_for(bytes), [&](size_t i) { chunks[i].first->run(chunks[i].second); });
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
