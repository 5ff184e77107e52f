#include "tutti/checkpoint/index.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "tutti/checkpoint/parallel.h"
#include "tutti/checkpoint/sealed_json.h"
#include "tutti/core/error.h"
#include "tutti/core/json.h"
#include "tutti/core/str.h"
#include "tutti/files/dtype_names.h"

namespace tutti::checkpoint {
namespace {

constexpr std::string_view kIndexFormat = "tutti checkpoint";
constexpr int64_t kMaxIndexedRank = 64;
constexpr size_t kEndOfText = std::string_view::npos;
constexpr size_t kTextWorthAThread = size_t{256} << 10;
constexpr size_t kMaxReservedShards = 16;  // before the text was seen that describes them

// --- writing ---------------------------------------------------------------------------------------------------------

template <class Values, class F>
void append_list(std::string& out, const Values& values, F append) {
  out += '[';
  bool first = true;
  for (const auto& value : values) {
    if (!first) out += ',';
    first = false;
    append(value);
  }
  out += ']';
}

void append_integers(std::string& out, c10::IntArrayRef values) {
  append_list(out, values, [&](int64_t value) { out += std::to_string(value); });
}

// Numbers are written by std::to_string: a stream would follow the process's locale.
struct ValueText {
  std::string operator()(int64_t value) const { return "{\"int64\":" + std::to_string(value) + "}"; }
  std::string operator()(double value) const {
    if (std::isfinite(value)) return "{\"float64\":" + json_number(value) + "}";
    return std::isnan(value) ? "{\"float64\":\"nan\"}" : value > 0 ? "{\"float64\":\"inf\"}" : "{\"float64\":\"-inf\"}";
  }
  std::string operator()(const std::string& value) const { return "{\"text\":" + json_text(value) + "}"; }
};

void append_shard(std::string& out, const IndexedShard& shard, bool whole) {
  out.append("{\"file\":").append(std::to_string(shard.file));
  out.append(",\"offset\":").append(std::to_string(shard.offset));
  out.append(",\"bytes\":").append(std::to_string(shard.bytes));
  if (!whole) {
    out += ",\"first\":";
    append_integers(out, shard.region.first);
    out += ",\"shape\":";
    append_integers(out, shard.region.sizes);
  }
  out += ",\"crc32c\":";
  append_list(out, shard.crc32c, [&](uint32_t crc) { out.append("\"").append(crc_text(crc)).append("\""); });
  out += '}';
}

void append_tensor(std::string& out, const IndexedTensor& tensor) {
  out.append("{\"name\":").append(json_text(tensor.name));
  out.append(",\"dtype\":\"").append(files::dtype_name(tensor.dtype)).append("\",\"shape\":");
  append_integers(out, tensor.sizes);
  if (!tensor.layout.empty()) out.append(",\"layout\":").append(json_text(tensor.layout));
  out += ",\"shards\":";
  append_list(out, tensor.shards, [&](const auto& shard) { append_shard(out, shard, tensor.shards.size() == 1); });
  out += '}';
}

void append_file(std::string& out, const IndexedFile& file) {
  out.append("{\"name\":").append(json_text(file.name));
  out.append(",\"bytes\":").append(std::to_string(file.bytes));
  out.append(",\"header_bytes\":").append(std::to_string(file.header_bytes));
  out.append(",\"header_crc32c\":\"").append(crc_text(file.header_crc32c)).append("\"}");
}

// --- reading ---------------------------------------------------------------------------------------------------------

uint64_t read_count(JsonReader& json) {
  const int64_t value = json.integer();
  if (value < 0) json.fail(str(value, " is negative"));
  return static_cast<uint64_t>(value);
}

uint32_t read_crc(JsonReader& json) {
  const std::string_view text = json.text_view();
  const auto crc = parse_crc(text);
  if (!crc) json.fail(str("\"", text, "\" is no CRC32C"));
  return *crc;
}

// Reads tensors from the index's array of them.
class TensorParser {
 public:
  TensorParser(const JsonReader& json, std::pmr::memory_resource* memory) : json_(json), tensors_(memory) {}

  // Reads on until the array ends, true, or a tensor begins at or behind the byte `stop`, false.
  bool read_before(size_t stop) {
    return json_.elements_before(stop, [&] { tensor(); });
  }
  // Reads from the byte `begin` to the end of the array. False where no tensors are there, or damaged ones.
  bool try_from(size_t begin) try {
    json_.go_to(begin);
    return read_before(kEndOfText);
  } catch (const Error&) {
    return false;
  }

  size_t at() const { return json_.at(); }
  std::pmr::deque<IndexedTensor>& tensors() { return tensors_; }

 private:
  void tensor() {
    const size_t expected_shards = tensors_.empty() ? 1 : tensors_.back().shards.size();
    IndexedTensor& tensor = tensors_.emplace_back(in(tensors_.get_allocator().resource()));
    tensor.shards.reserve(std::min(expected_shards, kMaxReservedShards));
    std::optional<at::ScalarType> dtype;
    json_.object("a tensor", {{"name", [&] { tensor.name = json_.text_view(); }},
                              {"dtype", [&] { dtype = parse_dtype(tensor.name); }},
                              {"shape", [&] { read_sizes(tensor.sizes); }},
                              {"layout", [&] { tensor.layout = json_.text_view(); }},
                              {"shards", [&] { json_.array([&] { shard(tensor.shards.emplace_back()); }); }}});
    if (!dtype) json_.fail(str("tensor \"", tensor.name, "\" has no dtype"));
    tensor.dtype = *dtype;
    check_shards(tensor);
  }

  static IndexedTensor in(std::pmr::memory_resource* memory) {
    return {.name = std::pmr::string(memory), .shards = std::pmr::vector<IndexedShard>(memory)};
  }

  at::ScalarType parse_dtype(std::string_view tensor) {
    const std::string_view name = json_.text_view();
    const auto known = files::dtype_of_name(name);
    if (!known) json_.fail(str("tensor \"", tensor, "\" has the unknown dtype \"", name, "\""));
    return *known;
  }

  void shard(IndexedShard& shard) {
    json_.object("a shard", {{"file", [&] { shard.file = read_count(json_); }},
                             {"offset", [&] { shard.offset = read_count(json_); }},
                             {"bytes", [&] { shard.bytes = read_count(json_); }},
                             {"first", [&] { read_sizes(shard.region.first); }},
                             {"shape", [&] { read_sizes(shard.region.sizes); }},
                             {"crc32c", [&] { json_.array([&] { shard.crc32c.push_back(read_crc(json_)); }); }}});
  }

  // Bytes of a tensor of these sizes; fails unless they and the strides fit 63 bits.
  uint64_t bytes_of(c10::IntArrayRef sizes, at::ScalarType dtype, std::string_view name) {
    auto bytes = static_cast<int64_t>(c10::elementSize(dtype)), strides = bytes;
    for (const int64_t size : sizes) {
      if (__builtin_mul_overflow(strides, std::max<int64_t>(size, 1), &strides))
        json_.fail(str("tensor \"", name, "\" of shape ", str_list(sizes), " is larger than 2^63 bytes"));
      bytes *= size;
    }
    return static_cast<uint64_t>(bytes);
  }

  void check_grid(IndexedTensor& tensor) {
    if (tensor.shards.size() == 1 && tensor.shards[0].region == Region{})
      return void(tensor.shards[0].region = Region::whole(tensor.sizes));
    c10::SmallVector<const Region*, 16> regions;
    for (const IndexedShard& shard : tensor.shards) regions.push_back(&shard.region);
    if (!is_grid_of(regions, tensor.sizes))
      json_.fail(str("the ", regions.size(), " shards of tensor \"", tensor.name, "\" do not make up its shape ",
                     str_list(tensor.sizes)));
  }

  void check_shards(IndexedTensor& tensor) {
    bytes_of(tensor.sizes, tensor.dtype, tensor.name);
    check_grid(tensor);
    for (const IndexedShard& shard : tensor.shards)
      if (const uint64_t bytes = bytes_of(shard.region.sizes, tensor.dtype, tensor.name);
          shard.bytes != bytes || shard.crc32c.size() != num_chunks(bytes))
        json_.fail(str("shard ", shard.region.to_string(), " of tensor \"", tensor.name, "\" has ", shard.bytes,
                       " bytes and ", shard.crc32c.size(), " CRCs; its shape needs ", bytes, " and ",
                       num_chunks(bytes)));
  }

  void read_sizes(Region::Axes& sizes) {
    json_.array([&] {
      sizes.push_back(static_cast<int64_t>(read_count(json_)));
      if (sizes.size() > kMaxIndexedRank) json_.fail(str("a shape of more than ", kMaxIndexedRank, " axes"));
    });
  }

  JsonReader json_;
  std::pmr::deque<IndexedTensor> tensors_;  // a vector would copy their shards whenever it grows
};

class IndexParser {
 public:
  IndexParser(const std::string& text, const std::string& source) : text_(text), json_(text, source) {}

  Index run() {
    std::string format;
    int64_t version = 0, chunk_bytes = 0;
    json_.object(
        "an index",
        {{"format", [&] { format = json_.text(); }},
         {"version", [&] { version = read_version(json_, kIndexFormat, format); }},
         {"step", [&] { index_.step = json_.integer(); }},
         {"chunk_bytes", [&] { chunk_bytes = json_.integer(); }},
         {"values", [&] { json_.object([&](std::string_view name) { index_.values[std::string(name)] = value(); }); }},
         {"files", [&] { json_.array([&] { file(); }); }},
         {"tensors", [&] { tensors(); }}});
    json_.end();
    if (version == 0) json_.fail("no version");
    if (chunk_bytes != static_cast<int64_t>(kChunkBytes))
      json_.fail(str("chunk_bytes is ", chunk_bytes, "; version ", kFormatVersion, " has ", kChunkBytes));
    check_files();
    check_names();
    return std::move(index_);
  }

 private:
  Value value() {
    Value value;
    int count = 0;
    json_.object([&](std::string_view type) {
      ++count;
      if (type == "int64")
        value = json_.integer();
      else if (type == "float64")
        value = number();
      else if (type == "text")
        value = json_.text();
      else
        json_.fail(str("unknown type of a value, \"", type, "\""));
    });
    if (count != 1) json_.fail(str("a value of ", count, " types"));
    return value;
  }

  double number() {
    if (!json_.at_text()) return json_.number();
    const std::string name = json_.text();
    if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (name == "inf") return std::numeric_limits<double>::infinity();
    if (name == "-inf") return -std::numeric_limits<double>::infinity();
    json_.fail(str("\"", name, "\" is no number"));
  }

  void file() {
    IndexedFile file;
    json_.object("a file", {{"name", [&] { file.name = json_.text(); }},
                            {"bytes", [&] { file.bytes = read_count(json_); }},
                            {"header_bytes", [&] { file.header_bytes = read_count(json_); }},
                            {"header_crc32c", [&] { file.header_crc32c = read_crc(json_); }}});
    if (const std::string name = file_name(index_.files.size()); file.name != name)
      json_.fail(str("a file is named \"", file.name, "\" in the place of \"", name, "\""));
    if (file.header_bytes > file.bytes) json_.fail(str("a header longer than its file, \"", file.name, "\""));
    index_.files.push_back(std::move(file));
  }

  // Two threads read much text: one from the beginning on, one from where a tensor seems to begin in the middle. If the
  // first does not come to just there, or the second finds damage, the first goes on alone.
  void tensors() {
    if (!json_.begin_array()) return;
    const size_t middle = middle_tensor();
    const int halves = middle == kEndOfText ? 1 : 2;
    TensorParser first(json_, index_.memory.add()), second(json_, index_.memory.add());
    bool ended = false, second_ended = false;
    for_each_item(static_cast<size_t>(halves), halves, [&](size_t half) {
      half == 0 ? ended = first.read_before(middle) : second_ended = second.try_from(middle);
    });
    const bool both = !ended && second_ended && first.at() == middle;
    if (!ended && !both) first.read_before(kEndOfText);
    json_.go_to(both ? second.at() : first.at());
    index_.tensors.reserve(first.tensors().size() + (both ? second.tensors().size() : 0));
    std::ranges::move(first.tensors(), std::back_inserter(index_.tensors));
    if (both) std::ranges::move(second.tensors(), std::back_inserter(index_.tensors));
  }

  // Where a tensor begins behind the middle of what is left of the text; kEndOfText for little text.
  size_t middle_tensor() const {
    constexpr std::string_view kNextTensor = "},{\"name\":";
    const size_t left = text_.size() - json_.at();
    if (left < kTextWorthAThread) return kEndOfText;
    const size_t found = text_.find(kNextTensor, json_.at() + left / 2);
    return found == kEndOfText ? kEndOfText : found + kNextTensor.find('{');
  }

  void check_names() {
    index_.names = TensorNames(index_.tensors);
    if (const auto* name = index_.names.twice()) json_.fail(str("tensor \"", *name, "\" comes twice"));
  }

  // Each file's data are its shards, one after the other.
  void check_files() {
    using Extent = std::pair<uint64_t, uint64_t>;  // offset, bytes
    std::vector<std::vector<Extent>> extents(index_.files.size());
    for (const IndexedTensor& tensor : index_.tensors)
      for (const IndexedShard& shard : tensor.shards) {
        if (shard.file >= index_.files.size())
          json_.fail(str("tensor \"", tensor.name, "\" lies in file ", shard.file, " of ", index_.files.size()));
        extents[shard.file].emplace_back(shard.offset, shard.bytes);
      }
    for (size_t i = 0; i < extents.size(); ++i) {
      const IndexedFile& file = index_.files[i];
      if (!std::ranges::is_sorted(extents[i])) std::ranges::sort(extents[i]);
      uint64_t end = file.header_bytes;
      for (const auto& [offset, bytes] : extents[i]) {
        if (offset != end || bytes > file.bytes - offset)
          json_.fail(str("the ", bytes, " bytes at ", offset, " of \"", file.name,
                         "\" do not follow those before, which end at ", end));
        end = offset + bytes;
      }
      if (end != file.bytes) json_.fail(str("\"", file.name, "\" has ", file.bytes, " bytes; its shards end at ", end));
    }
  }

  std::string_view text_;
  JsonReader json_;
  Index index_;
};

}  // namespace

std::string file_name(size_t number) {
  const std::string digits = std::to_string(number);
  return str("tensors-", std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0'), digits, ".safetensors");
}

bool is_file_name(const std::string& name) {
  constexpr size_t kDigitsBegin = std::string_view("tensors-").size();
  size_t number = 0;
  std::from_chars(name.data() + std::min(kDigitsBegin, name.size()), name.data() + name.size(), number);
  return name == file_name(number);
}

std::string_view index_beginning() { return R"({"format":"tutti checkpoint",)"; }

std::string index_text(const Index& index) {
  std::string out = str("{\"format\":\"", kIndexFormat, "\"");
  out.append(",\"version\":").append(std::to_string(kFormatVersion));
  out.append(",\"step\":").append(std::to_string(index.step));
  out.append(",\"chunk_bytes\":").append(std::to_string(kChunkBytes));
  out += ",\"values\":{";
  for (const auto& [name, value] : index.values) {
    if (out.back() != '{') out += ',';
    out.append(json_text(name)).append(":").append(std::visit(ValueText{}, value));
  }
  out += "},\"files\":";
  append_list(out, index.files, [&](const IndexedFile& file) { append_file(out, file); });
  out += ",\"tensors\":";
  append_list(out, index.tensors, [&](const IndexedTensor& tensor) { append_tensor(out, tensor); });
  return seal(out + '}');
}

Index parse_index(std::string text, const std::string& source) {
  const std::string json = unseal(std::move(text), source);
  return IndexParser(json, source).run();
}

}  // namespace tutti::checkpoint
