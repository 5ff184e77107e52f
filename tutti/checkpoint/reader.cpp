#include "tutti/checkpoint/reader.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

#include "tutti/checkpoint/box_copy.h"
#include "tutti/checkpoint/parallel.h"
#include "tutti/checkpoint/request_check.h"
#include "tutti/checkpoint/safetensors_header.h"
#include "tutti/checkpoint/sealed_json.h"
#include "tutti/core/crc32c.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/tensor/host_memory.h"
#include "tutti/tensor/view.h"

namespace tutti::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMaxThreads = 8;
constexpr uint64_t kBytesWorthAThread = uint64_t{4} << 20;
constexpr uint64_t kMaxGap = uint64_t{16} << 10;          // bytes that are read though nobody needs them
constexpr uint64_t kLongRun = uint64_t{4} << 10;          // bytes that are worth a place of their own in a read
constexpr uint64_t kMaxBatch = uint64_t{256} << 10;       // bytes of small tensors read together, in a core's cache
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

[[noreturn]] void crc_differs(uint32_t stored, uint32_t computed, const std::string& what) {
  damaged(str(what, " are damaged: stored CRC32C ", crc_text(stored), ", computed ", crc_text(computed)));
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
    if (const uint32_t computed = crc32c(header_.data(), header_.size()); computed != indexed.header_crc32c)
      crc_differs(indexed.header_crc32c, computed,
                  str("'", path_.string(), "': the ", header_.size(), " bytes of its header"));
  }

  const fs::path& path() const { return path_; }
  void read(uint64_t offset, std::span<std::byte> bytes) const { file_->read(offset, bytes); }
  void read_parts(uint64_t offset, std::span<const std::span<std::byte>> parts) const {
    file_->read_parts(offset, parts);
  }
  SafetensorsHeader parse_header() const { return parse_safetensors_header(header_, file_->size(), path_.string()); }

 private:
  fs::path path_;
  std::unique_ptr<ReadableFile> file_;
  std::vector<std::byte> header_;
};

using Bytes = std::span<std::byte>;

// A chunk of a shard.
struct Chunk {
  const IndexedTensor* tensor;
  const IndexedShard* shard;
  uint64_t begin;  // from the beginning of the shard

  uint64_t size() const { return std::min(kChunkBytes, shard->bytes - begin); }
  uint64_t offset() const { return shard->offset + begin; }  // in the file
  uint64_t end() const { return offset() + size(); }
  bool operator==(const Chunk&) const = default;

  // `parts` are its bytes, one after the other.
  void check(const ShardFile& file, std::span<const Bytes> parts) const {
    const uint32_t stored = shard->crc32c[begin / kChunkBytes];
    uint32_t computed = 0;
    for (const Bytes part : parts) computed = crc32c(part.data(), part.size(), computed);
    if (computed != stored)
      crc_differs(stored, computed,
                  str("'", file.path().string(), "', tensor '", tensor->name, "', shard ", shard->region.to_string(),
                      ": the bytes from ", offset(), " to ", end()));
  }
};

// For a chunk, or for a batch of small tensors and a gap behind it.
std::byte* thread_buffer() {
  static_assert(kMaxBatch + kMaxGap <= kChunkBytes);
  thread_local const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kChunkBytes);
  return buffer.get();
}

// A region of a tensor, and the memory that it is read to.
struct Target {
  const IndexedTensor* tensor;
  uint64_t tensor_bytes;
  Region region;
  Region::Axes strides;
  std::byte* bytes;

  BoxCopy copy_of(const IndexedShard& shard) const {
    return BoxCopy(shard.region, region, strides, c10::elementSize(tensor->dtype));
  }
};

// A chunk that a target needs.
struct Use {
  Chunk chunk;
  const Target* target;
};

// Adds the chunks of the tensor's shards that the target needs, to the list of the shard's file.
void add_uses(const Target& target, std::vector<std::vector<Use>>& uses) {
  for (const IndexedShard& shard : target.tensor->shards) {
    if (!shard.region.overlaps(target.region)) continue;
    const auto add = [&](uint64_t begin) { uses[shard.file].push_back({{target.tensor, &shard, begin}, &target}); };
    if (shard.bytes <= kChunkBytes) {
      add(0);
      continue;
    }
    const BoxCopy copy = target.copy_of(shard);
    for (uint64_t begin = 0; begin < shard.bytes; begin += kChunkBytes)
      if (copy.touches(begin, std::min(begin + kChunkBytes, shard.bytes))) add(begin);
  }
}

// Uses in the order of their file, which lie within the bytes of a thread's buffer, without large gaps between them.
class Run {
 public:
  Run(const ShardFile& file, std::span<const Use> uses) : file_(&file), uses_(uses) {}

  uint64_t begin() const { return uses_.front().chunk.offset(); }
  uint64_t end() const { return uses_.back().chunk.end(); }

  void read() const {
    if (!read_in_place()) read_and_scatter();
  }

 private:
  // Of a chunk, for a target.
  struct Place {
    uint64_t offset;  // in the file
    Bytes to;
  };

  // To the targets at once; what none of them needs goes to the buffer. False, with nothing read, where the parts are
  // short or two targets need the same bytes.
  bool read_in_place() const {
    std::vector<Bytes> parts;
    std::vector<std::pair<const Chunk*, size_t>> chunks;  // with the end of their parts; null: a gap
    uint64_t at = begin();
    const auto fill_to = [&](uint64_t offset) {
      if (offset > at) parts.emplace_back(thread_buffer() + (at - begin()), offset - at);
      at = offset;
    };
    for (size_t first = 0, next = 0; first < uses_.size(); first = next) {
      const Chunk& chunk = uses_[first].chunk;
      while (next < uses_.size() && uses_[next].chunk == chunk) ++next;
      const auto places = long_places(uses_.subspan(first, next - first));
      if (places.empty()) return false;
      fill_to(chunk.offset());
      chunks.emplace_back(nullptr, parts.size());
      for (const Place& place : places) {
        if (place.offset < at) return false;
        fill_to(place.offset);
        parts.push_back(place.to);
        at += place.to.size();
      }
      fill_to(chunk.end());
      chunks.emplace_back(&chunk, parts.size());
    }
    file_->read_parts(begin(), parts);
    size_t first = 0;
    for (const auto& [chunk, end] : chunks) {
      if (chunk) chunk->check(*file_, std::span(parts).subspan(first, end - first));
      first = end;
    }
    return true;
  }

  // Where the bytes of a chunk go, in their order in the file; empty where that is in short parts.
  static std::vector<Place> long_places(std::span<const Use> uses) {
    std::vector<Place> places;
    for (const auto& [chunk, target] : uses) {
      const BoxCopy copy = target->copy_of(*chunk.shard);
      if (copy.run_bytes() < kLongRun) return {};
      copy.for_each_part(chunk.begin, chunk.begin + chunk.size(), [&](uint64_t from, uint64_t to, uint64_t bytes) {
        places.push_back({chunk.shard->offset + from, {target->bytes + to, bytes}});
      });
    }
    if (uses.size() > 1) std::ranges::sort(places, {}, &Place::offset);
    return places;
  }

  void read_and_scatter() const {
    file_->read(begin(), {thread_buffer(), end() - begin()});
    const Chunk* checked = nullptr;
    for (const auto& [chunk, target] : uses_) {
      const Bytes bytes(thread_buffer() + (chunk.offset() - begin()), chunk.size());
      if (!checked || *checked != chunk) chunk.check(*file_, {&bytes, 1});
      checked = &chunk;
      target->copy_of(*chunk.shard).scatter(chunk.begin, bytes, target->bytes);
    }
  }

  const ShardFile* file_;
  std::span<const Use> uses_;
};

// Orders the uses of a file, and adds the runs that they make.
void add_runs(const ShardFile& file, std::vector<Use>& uses, std::vector<Run>& runs) {
  const auto offset = [](const Use& use) { return use.chunk.offset(); };
  if (!std::ranges::is_sorted(uses, {}, offset)) std::ranges::sort(uses, {}, offset);
  for (size_t first = 0, i = 0; i < uses.size(); first = i) {
    const uint64_t begin = uses[first].chunk.offset();
    uint64_t end = begin;  // of the run
    const auto fits = [&](const Chunk& chunk) {
      return chunk.offset() <= end + kMaxGap && chunk.end() - begin <= kChunkBytes;
    };
    for (; i < uses.size() && fits(uses[i].chunk); ++i) end = uses[i].chunk.end();
    runs.emplace_back(file, std::span(uses).subspan(first, i - first));
  }
}

// Targets of one tensor.
using Group = std::span<const Target* const>;

// Small tensors that are read together: what is known of each, and its memory, is touched while it is in the cache.
class Batch {
 public:
  explicit Batch(std::span<const Target* const> targets) : targets_(targets) {}

  void read(std::span<const ShardFile> files) const {
    std::vector<Needed> needed = shards();
    std::vector<std::vector<Needed*>> by_file(files.size());
    for (Needed& shard : needed) by_file[shard.shard->file].push_back(&shard);
    std::byte* buffer = thread_buffer();
    for (size_t file = 0; file < files.size(); ++file) read_file(files[file], by_file[file], buffer);
    for (const Needed& shard : needed) check_and_scatter(files[shard.shard->file], shard);
  }

 private:
  // A shard, and those who need it.
  struct Needed {
    const IndexedShard* shard;
    Group group;
    std::byte* place;  // that it is read to: its only target, or a buffer
    bool in_place;

    uint64_t offset() const { return shard->offset; }
    uint64_t end() const { return shard->offset + shard->bytes; }
  };

  // Tensor by tensor.
  std::vector<Needed> shards() const {
    std::vector<Needed> needed;
    needed.reserve(2 * targets_.size());
    for (size_t first = 0, next = 0; first < targets_.size(); first = next) {
      while (next < targets_.size() && targets_[next]->tensor == targets_[first]->tensor) ++next;
      const Group group = targets_.subspan(first, next - first);
      for (const IndexedShard& shard : group.front()->tensor->shards) add_if_needed(shard, group, needed);
    }
    return needed;
  }

  static void add_if_needed(const IndexedShard& shard, Group group, std::vector<Needed>& needed) {
    const Target* only = nullptr;
    int count = 0;
    for (const Target* target : group)
      if (shard.region.overlaps(target->region)) only = target, ++count;
    if (count == 0) return;
    std::byte* place = nullptr;
    if (count == 1 && shard.bytes >= kLongRun)
      if (const auto begin = only->copy_of(shard).place_of_whole(shard.bytes)) place = only->bytes + *begin;
    needed.push_back({&shard, group, place, place != nullptr});
  }

  // Takes from the buffer what has no place yet.
  static void read_file(const ShardFile& file, std::vector<Needed*>& shards, std::byte*& buffer) {
    if (!std::ranges::is_sorted(shards, {}, &Needed::offset)) std::ranges::sort(shards, {}, &Needed::offset);
    for (size_t first = 0, next = 0; first < shards.size(); first = next) {
      for (next = first + 1; next < shards.size(); ++next)
        if (shards[next]->offset() > shards[next - 1]->end() + kMaxGap) break;
      read_run(file, std::span(shards).subspan(first, next - first), buffer);
    }
  }

  // Shards that follow each other in a file, almost without gaps.
  static void read_run(const ShardFile& file, std::span<Needed* const> run, std::byte*& buffer) {
    std::byte* const gap = thread_buffer() + kMaxBatch;  // that nobody looks at
    std::vector<Bytes> parts;
    uint64_t at = run.front()->offset();
    for (Needed* shard : run) {
      if (shard->offset() > at) parts.emplace_back(gap, shard->offset() - at);
      if (!shard->in_place) shard->place = std::exchange(buffer, buffer + shard->shard->bytes);
      const Bytes bytes(shard->place, shard->shard->bytes);
      if (!parts.empty() && parts.back().data() + parts.back().size() == bytes.data())
        parts.back() = {parts.back().data(), parts.back().size() + bytes.size()};
      else
        parts.push_back(bytes);
      at = shard->end();
    }
    file.read_parts(run.front()->offset(), parts);
  }

  static void check_and_scatter(const ShardFile& file, const Needed& needed) {
    const Bytes bytes(needed.place, needed.shard->bytes);
    Chunk{needed.group.front()->tensor, needed.shard, 0}.check(file, {&bytes, 1});
    if (needed.in_place) return;
    for (const Target* target : needed.group) target->copy_of(*needed.shard).scatter_whole(needed.place, target->bytes);
  }

  std::span<const Target* const> targets_;
};

// Orders the targets by their place in the files, and cuts them in batches between tensors.
std::vector<Batch> batches_of(std::vector<const Target*>& targets) {
  const auto position = [](const Target* target) {
    const IndexedShard& first = target->tensor->shards.front();
    return std::tuple(first.file, first.offset, target->tensor);
  };
  if (!std::ranges::is_sorted(targets, {}, position)) std::ranges::stable_sort(targets, {}, position);
  std::vector<Batch> batches;
  size_t first = 0;
  uint64_t bytes = 0;  // from the first one on
  for (size_t i = 0; i < targets.size(); ++i) {
    if (i > 0 && targets[i]->tensor == targets[i - 1]->tensor) continue;
    if (bytes + targets[i]->tensor_bytes > kMaxBatch) {
      batches.emplace_back(std::span(targets).subspan(first, i - first));
      first = i;
      bytes = 0;
    }
    bytes += targets[i]->tensor_bytes;
  }
  if (first < targets.size()) batches.emplace_back(std::span(targets).subspan(first));
  return batches;
}

int threads_for(uint64_t bytes) {
  const unsigned cores = std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads);
  return static_cast<int>(std::min<uint64_t>(cores, bytes / kBytesWorthAThread + 1));
}

// Whether bytes cannot be put where the destination has them: rows that are not contiguous are copied faster at once.
bool needs_copy(const Tensor& destination) {
  if (!in_host_memory(destination)) return true;
  const auto sizes = destination.sizes(), strides = destination.strides();
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (sizes[axis] > 1 && (strides[axis] == 0 || (axis + 1 == sizes.size() && strides[axis] != 1))) return true;
  return false;
}

uint64_t num_bytes(at::ScalarType dtype, c10::IntArrayRef sizes) {
  uint64_t bytes = c10::elementSize(dtype);
  for (const int64_t size : sizes) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

// Where the bytes of a region go: to the memory of the tensor that takes it and outlives this, or to a copy that is
// written to it when all is read.
class Destination {
 public:
  Destination(const IndexedTensor& from, Region&& region, const Tensor& tensor)
      : tensor_(&tensor),
        target_{.tensor = &from, .tensor_bytes = num_bytes(from.dtype, from.sizes), .region = std::move(region)},
        bytes_(num_bytes(from.dtype, target_.region.sizes)),
        needs_copy_(needs_copy(tensor)) {
    if (!needs_copy_) read_to(*tensor_);
  }

  uint64_t bytes() const { return bytes_; }
  uint64_t bytes_of_copy() const { return needs_copy_ ? bytes_ : 0; }
  const Target& target() const { return target_; }
  void make_copy() {
    if (!needs_copy_) return;
    copy_ =
        at::empty(tensor_->sizes(), tensor_->options().device(at::kCPU).memory_format(at::MemoryFormat::Contiguous));
    read_to(copy_);
  }
  void finish() const {
    if (copy_.defined())
      tensor_->detach().copy_(copy_);
    else if (!tensor_->is_inference())
      tensor_->unsafeGetTensorImpl()->bump_version();
  }

 private:
  void read_to(const Tensor& memory) {
    target_.strides = memory.strides();
    target_.bytes = static_cast<std::byte*>(memory.mutable_data_ptr());
  }

  const Tensor* tensor_;
  Target target_;
  uint64_t bytes_;
  bool needs_copy_;
  Tensor copy_;
};

}  // namespace

struct Reader::State {
  fs::path folder;
  Index index;
  std::vector<ShardFile> files;

  const IndexedTensor& require(std::string_view name) const {
    if (const IndexedTensor* found = index.names.find(name)) return *found;
    throw Error(ErrorCode::not_found,
                str("checkpoint: '", folder.string(), "' has no tensor '", name, "' among its ", index.tensors.size()));
  }

  void verify_header(size_t file) const;
  void read(std::span<Destination> destinations) const;
  void read_together(std::span<Destination> destinations) const;
};

// Those who read the file by its own header must find what the index describes.
void Reader::State::verify_header(size_t file) const {
  const SafetensorsHeader header = files[file].parse_header();
  std::vector<SafetensorsEntry> indexed;
  for (const IndexedTensor& tensor : index.tensors)
    for (const IndexedShard& shard : tensor.shards)
      if (shard.file == file)
        indexed.push_back(safetensors_entry(std::string(tensor.name), tensor.dtype, shard.region.sizes,
                                            shard.offset - header.data_begin));
  std::ranges::sort(indexed, {}, &SafetensorsEntry::place);
  if (header.data_begin != index.files[file].header_bytes || header.entries != indexed)
    damaged(str("the header of '", files[file].path().string(), "' and the index do not say the same"));
}

Reader::Reader(FileSystem& files, fs::path folder) {
  if (!files.exists(folder)) throw Error(ErrorCode::not_found, str("checkpoint: there is no '", folder.string(), "'"));
  const fs::path index = folder / kIndexName;
  std::string text = expecting(index, [&] { return read_text(files, index, kMaxIndexBytes); });
  auto state = std::make_unique<State>(
      State{.folder = folder, .index = parse_index(std::move(text), str("checkpoint: '", index.string(), "'"))});
  for (const IndexedFile& file : state->index.files) state->files.emplace_back(files, folder / file.name, file);
  state_ = std::move(state);
}

Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

const fs::path& Reader::folder() const { return state_->folder; }
int64_t Reader::step() const { return state_->index.step; }
const std::map<std::string, Value>& Reader::values() const { return state_->index.values; }
const std::vector<IndexedTensor>& Reader::tensors() const { return state_->index.tensors; }
const IndexedTensor* Reader::find(std::string_view name) const { return state_->index.names.find(name); }
bool Reader::has_one_that_starts_with(std::string_view beginning_of_name) const {
  return state_->index.names.has_one_that_starts_with(beginning_of_name);
}

void Reader::read(std::span<const Request> requests) const {
  for (const Request& request : requests) check_request(request);
  std::vector<Destination> destinations;
  destinations.reserve(requests.size());
  for (const Request& request : requests)
    for_each_buffer_to_write(request.destination, [&](Region&& region, const Tensor& buffer) {
      if (request.first_row) region.first[0] += *request.first_row;
      if (region.numel() > 0) destinations.emplace_back(*request.tensor, std::move(region), buffer);
    });
  state_->read(destinations);
}

void Reader::read(std::string_view name, const Region& region, const Tensor& destination) const {
  const IndexedTensor& tensor = state_->require(name);
  check_inside(tensor, region);
  check_fits(tensor, region.sizes, destination);
  if (region.numel() == 0) return;
  Destination only(tensor, Region(region), destination);
  state_->read({&only, 1});
}

void Reader::read(std::string_view name, const Tensor& destination) const {
  const Request request{&state_->require(name), destination, {}};
  read({&request, 1});
}

// Together, as far as the copies that it takes do not need too much memory.
void Reader::State::read(std::span<Destination> destinations) const {
  const GlobalViewGuard no_scope;  // tensors made here are plain
  size_t first = 0;
  uint64_t copied = 0;
  for (size_t i = 0; i < destinations.size(); ++i) {
    const uint64_t bytes = destinations[i].bytes_of_copy();
    if (bytes == 0) continue;
    copied += bytes;
    if (copied <= kMaxCopiedBytes || i == first) continue;
    read_together(destinations.subspan(first, i - first));
    first = i;
    copied = bytes;
  }
  read_together(destinations.subspan(first));
}

void Reader::State::read_together(std::span<Destination> destinations) const {
  std::vector<const Target*> small, large;
  small.reserve(destinations.size());
  uint64_t bytes = 0;
  for (Destination& destination : destinations) {
    destination.make_copy();
    bytes += destination.bytes();
    (destination.target().tensor_bytes <= kMaxBatch ? small : large).push_back(&destination.target());
  }
  const std::vector<Batch> batches = batches_of(small);
  std::vector<std::vector<Use>> uses(files.size());
  for (const Target* target : large) add_uses(*target, uses);
  std::vector<Run> runs;
  for (size_t file = 0; file < files.size(); ++file) add_runs(files[file], uses[file], runs);

  for_each_item(batches.size() + runs.size(), threads_for(bytes), [&](size_t i) {
    if (i < batches.size())
      batches[i].read(files);
    else
      runs[i - batches.size()].read();
  });
  const at::NoGradGuard no_grad;
  for (const Destination& destination : destinations) destination.finish();
}

Tensor Reader::read(std::string_view name) const {
  const GlobalViewGuard no_scope;
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
      for (uint64_t begin = 0; begin < shard.bytes; begin += kChunkBytes) chunks.push_back({&tensor, &shard, begin});
    }
  for_each_item(chunks.size(), threads_for(bytes), [&](size_t i) {
    const ShardFile& file = state_->files[chunks[i].shard->file];
    const Bytes buffer(thread_buffer(), chunks[i].size());
    file.read(chunks[i].offset(), buffer);
    chunks[i].check(file, {&buffer, 1});
  });
}

bool is_checkpoint(FileSystem& files, const fs::path& folder) {
  if (!files.exists(folder / kIndexName)) return false;
  const auto index = files.open(folder / kIndexName);
  std::string begin(index_beginning().size(), ' ');
  if (index->size() < begin.size()) return false;
  index->read(0, std::as_writable_bytes(std::span(begin)));
  return begin == index_beginning();
}

}  // namespace tutti::checkpoint
