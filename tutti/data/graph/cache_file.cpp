#include <zlib.h>

#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <fstream>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/fingerprint.h"
#include "tutti/data/graph/ops.h"
#include "tutti/files/new_file.h"

// A cache's file, numbers little-endian:
//   magic            8 bytes
//   the fingerprint of its dataset, as an element but for the bytes, which are the text's
//   for each element: size of its bytes (8), CRC-32 of that size and the bytes (4), the bytes as StateWriter has them
//   the end:          2^64 - 1 (8), CRC-32 of the next (4), number of elements (8)
namespace tutti::data::graph {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "tuttids2";
constexpr uint64_t kEnd = UINT64_MAX;

struct Header {
  uint64_t size;
  uint32_t checksum;
};
constexpr size_t kHeaderBytes = 12;

uint32_t checksum_of_part(uint64_t size, const void* bytes, size_t count) {
  std::array<Bytef, sizeof size> prefix;
  std::memcpy(prefix.data(), &size, sizeof size);
  const uLong begun = crc32_z(0, prefix.data(), prefix.size());
  return static_cast<uint32_t>(crc32_z(begun, static_cast<const Bytef*>(bytes), count));
}

// Writes the file, which appears whole with finish(), or never.
class CacheWriter {
 public:
  CacheWriter(const fs::path& path, const std::string& fingerprint)
      : place_(path), file_(place_.part(), std::ios::binary) {
    file_.write(kMagic.data(), kMagic.size());
    record(fingerprint.size(), fingerprint.data(), fingerprint.size());
  }

  void add(const Element& element) {
    StateWriter writer({});
    writer.element(element);
    const Tensor bytes = writer.finish();
    const auto size = static_cast<uint64_t>(bytes.numel());
    record(size, bytes.const_data_ptr<uint8_t>(), size);
    ++count_;
  }

  void finish() {
    record(kEnd, &count_, sizeof count_);
    file_.close();
    check();
    place_.finish();
  }

 private:
  void record(uint64_t size, const void* bytes, size_t count) {
    const uint32_t checksum = checksum_of_part(size, bytes, count);
    file_.write(reinterpret_cast<const char*>(&size), sizeof size);
    file_.write(reinterpret_cast<const char*>(&checksum), sizeof checksum);
    file_.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
    check();
  }

  void check() const {
    if (!file_)
      throw Error(ErrorCode::unavailable, str("cache: cannot write '", place_.part().string(),
                                              "'; is the folder there, and the disk not full?"));
  }

  files::NewFile place_;
  std::ofstream file_;
  uint64_t count_ = 0;
};

// Reads such a file. Nothing in it is believed.
class CacheReader {
 public:
  explicit CacheReader(const fs::path& path) : path_(path), size_(fs::file_size(path)), file_(path, std::ios::binary) {
    if (!file_) throw Error(ErrorCode::unavailable, str("cache: cannot open '", path.string(), "'"));
    std::array<char, kMagic.size()> magic{};
    read(magic.data(), magic.size());
    if (std::string_view(magic.data(), magic.size()) != kMagic)
      damaged(str("it begins with other bytes than '", kMagic, "'"));
    const Tensor text = read_record(read_header(), magic.size());
    made_by_.assign(static_cast<const char*>(text.const_data_ptr()), static_cast<size_t>(text.numel()));
  }

  // Throws: failed_precondition where the file is of a dataset with another fingerprint.
  void require(const std::string& fingerprint) const {
    if (made_by_ != fingerprint)
      throw Error(
          ErrorCode::failed_precondition,
          str("cache: '", path_.string(), "' is of another dataset, '", made_by_, "'; this one is '", fingerprint,
              "'; remove the file, and the next pass writes it anew, or give each dataset a file of its own"));
  }

  // Throws: failed_precondition where the file's end tells of another number of elements.
  void require(int64_t cardinality) {
    constexpr uint64_t kEndBytes = kHeaderBytes + sizeof count_;
    if (cardinality < 0 || size_ < kMagic.size() + kEndBytes) return;
    const uint64_t begin = position_;
    go_to(size_ - kEndBytes);
    const Header end = read_header();
    uint64_t count;
    read(&count, sizeof count);
    go_to(begin);
    if (end.size == kEnd && end.checksum == checksum_of_part(kEnd, &count, sizeof count) &&
        count != static_cast<uint64_t>(cardinality))
      throw Error(ErrorCode::failed_precondition,
                  str("cache: '", path_.string(), "' has ", count, " elements and the dataset ", cardinality,
                      ", so that it is of another; remove the file, and the next pass writes it anew"));
  }

  // Returns false at the end.
  bool next(Element& element) {
    if (ended_) return false;
    const uint64_t begin = position_;
    const Header header = read_header();
    const Tensor bytes = read_record(header, begin);
    if (header.size == kEnd) {
      end(bytes);
      return false;
    }
    element = parse(bytes, begin);
    ++count_;
    return true;
  }

 private:
  [[noreturn]] void damaged(const std::string& what) {
    ended_ = true;
    throw Error(ErrorCode::data_loss,
                str("cache: '", path_.string(), "': ", what, "; remove the file, and the next pass writes it anew"));
  }

  void go_to(uint64_t position) {
    position_ = position;
    file_.seekg(static_cast<std::streamoff>(position));
  }

  void read(void* to, uint64_t count) {
    if (count > size_ - position_ || !file_.read(static_cast<char*>(to), static_cast<std::streamsize>(count)))
      damaged(str("it ends at byte ", size_, ", in the middle"));
    position_ += count;
  }

  Header read_header() {
    std::array<char, kHeaderBytes> bytes;
    read(bytes.data(), bytes.size());
    Header header;
    std::memcpy(&header.size, bytes.data(), sizeof header.size);
    std::memcpy(&header.checksum, bytes.data() + sizeof header.size, sizeof header.checksum);
    return header;
  }

  // The bytes behind a header, which begins at `begin`.
  Tensor read_record(const Header& header, uint64_t begin) {
    const uint64_t size = header.size == kEnd ? sizeof count_ : header.size;
    if (size > size_ - position_)
      damaged(str("the element at byte ", begin, " announces ", size, " bytes, and ", size_ - position_, " follow"));
    const Tensor bytes = at::empty({static_cast<int64_t>(size)}, at::kByte);
    read(bytes.mutable_data_ptr(), size);
    const uint32_t computed = checksum_of_part(header.size, bytes.const_data_ptr(), size);
    if (computed != header.checksum)
      damaged(str("the checksum at byte ", begin, " is ", header.checksum, ", of its bytes it is ", computed));
    return bytes;
  }

  Element parse(const Tensor& bytes, uint64_t begin) {
    try {
      StateReader reader(bytes, {});
      Element element = reader.element();
      reader.finish();
      return element;
    } catch (const Error& error) {
      damaged(str("the element at byte ", begin, ": ", error.what()));
    }
  }

  void end(const Tensor& bytes) {
    uint64_t count;
    std::memcpy(&count, bytes.const_data_ptr(), sizeof count);
    if (count != count_) damaged(str("it has ", count_, " elements and says ", count));
    if (position_ != size_) damaged(str("its end at byte ", position_, " is followed by more"));
    ended_ = true;
  }

  fs::path path_;
  uint64_t size_;
  std::ifstream file_;
  std::string made_by_;
  uint64_t position_ = 0;
  uint64_t count_ = 0;
  bool ended_ = false;
};

// A pass that reads the file where there is one when it begins, and else writes it. A pass that was restored writes
// none: it did not see the elements before. As in a cache in memory, the input's passes are all alike.
class CacheFileIterator : public Iterator {
 public:
  CacheFileIterator(NodePtr input, const fs::path& path, std::shared_ptr<const Fingerprint> fingerprint,
                    Context of_input)
      : input_(std::move(input)), path_(path), fingerprint_(std::move(fingerprint)), of_input_(std::move(of_input)) {
    if (fs::exists(path_)) {
      reader_.emplace(path_).require(input_->cardinality);
      reader_->require(fingerprint_->of(of_input_));
    } else {
      pass_ = input_->iterate(of_input_);
    }
  }

  bool next(Element& element) override {
    if (reader_ ? !reader_->next(element) : ended_ || !read_input(element)) return false;
    ++given_;
    return true;
  }

  // Where it reads, the input's state is that of a pass that was not used, by which a state of another is refused.
  void save(StateWriter& state) override {
    state.op("cache_file");
    state.number(given_);
    state.number(may_write_);
    state.number(pass_ != nullptr);
    const auto unused = pass_ ? nullptr : input_->iterate(of_input_);
    (pass_ ? *pass_ : *unused).save(state);
  }

  // The file may have come or gone since the state was written.
  void restore(StateReader& state) override {
    state.op("cache_file");
    const int64_t given = state.number_in(0, INT64_MAX);
    may_write_ = state.flag() && given == 0;
    const bool was_read = !state.flag();
    auto pass = input_->iterate(of_input_);
    pass->restore(state);
    if (!was_read && !reader_) {
      pass_ = std::move(pass);
      given_ = given;
      return;
    }
    Element passed_over;
    while (given_ < given)
      if (!next(passed_over))
        throw Error(ErrorCode::data_loss, str("restoring an iterator: ", given, " elements of the cache '",
                                              path_.string(), "' had been read, which now has ", given_));
  }

 private:
  // Where an element throws, the file that would lack it is not written.
  bool read_input(Element& element) {
    bool any = false;
    try {
      any = pass_->next(element);
    } catch (...) {
      may_write_ = false;
      writer_.reset();
      throw;
    }
    if (any) {
      open_writer();
      if (writer_) writer_->add(element);
      return true;
    }
    ended_ = true;
    open_writer();
    if (writer_) writer_->finish();
    writer_.reset();
    return false;
  }

  void open_writer() {
    if (may_write_ && !writer_) writer_.emplace(path_, fingerprint_->of(of_input_));
  }

  NodePtr input_;
  fs::path path_;
  std::shared_ptr<const Fingerprint> fingerprint_;
  const Context of_input_;
  std::optional<CacheReader> reader_;
  std::unique_ptr<Iterator> pass_;  // over the input; null where the file is read
  std::optional<CacheWriter> writer_;
  bool may_write_ = true;
  bool ended_ = false;
  int64_t given_ = 0;
};

}  // namespace

NodePtr cache_file(const NodePtr& input, const fs::path& path) {
  if (path.empty())
    throw Error(ErrorCode::invalid_argument, "cache: the file has no name; cache() keeps the elements in memory");
  Node node = after(input, [path](const NodePtr& other) { return cache_file(other, path); });
  const auto fingerprint = std::make_shared<const Fingerprint>(input);
  node.iterate = [=](const Context& context) {
    return std::make_unique<CacheFileIterator>(input, path, fingerprint, context.fixed());
  };
  return std::make_shared<const Node>(std::move(node));
}

}  // namespace tutti::data::graph
