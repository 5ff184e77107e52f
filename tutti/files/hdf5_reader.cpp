#include "tutti/files/hdf5_reader.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <istream>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "tutti/core/bytes.h"
#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/files/byte_order.h"
#include "tutti/files/hdf5_datatype.h"

namespace tutti::files {
namespace {

constexpr std::string_view kHdf5Signature = "\x89HDF\r\n\x1a\n";
constexpr uint64_t kUndefined = UINT64_MAX;  // an address
constexpr size_t kMaxDepth = 100;            // of groups, and of trees of their links
constexpr const char* kRewrite = "; h5py, opening a file without libver, writes one that is read";

enum Hdf5Message : uint16_t {
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kAttribute = 0x0C,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15,
};

// Little-endian numbers and bytes, from the front.
class Fields {
 public:
  Fields(std::string bytes, std::string what)
      : bytes_(std::move(bytes)),
        reader_({reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()}, std::move(what)) {}
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  uint64_t number(size_t width) {
    uint64_t value = 0;
    std::memcpy(&value, reader_.raw(width), width);
    return value;
  }
  std::string text(uint64_t count) {
    return {reinterpret_cast<const char*>(reader_.raw(count)), static_cast<size_t>(count)};
  }
  void skip(uint64_t count) { (void)reader_.raw(count); }
  uint64_t left() const { return reader_.left(); }

 private:
  const std::string bytes_;
  ByteReader reader_;
};

struct Hdf5Header {
  std::multimap<uint16_t, std::string> messages;

  const std::string* find(uint16_t type) const {
    const auto found = messages.find(type);
    return found == messages.end() ? nullptr : &found->second;
  }
};

struct Hdf5Values {
  Hdf5Form form;
  bool is_big_endian = false;
  uint64_t address = kUndefined;
  std::string compact = {};  // those that lie in the header
  uint64_t num_bytes = 0;
};

}  // namespace

class Hdf5Reader::File {
 public:
  // `size` is that of what the stream gives.
  File(std::unique_ptr<std::istream> stream, uint64_t size, const std::string& name)
      : name_(str("HDF5: '", name, '\'')), stream_(std::move(stream)), size_(size), budget_(full_budget()) {
    list_group(root(), "", 0);
  }

  const std::map<std::string, uint64_t>& datasets() const { return datasets_; }
  const std::map<std::string, uint64_t>& groups() const { return groups_; }

  std::optional<std::vector<std::string>> texts(const std::string& group, const std::string& attribute) {
    const auto found = groups_.find(group);
    if (found == groups_.end()) throw Error(ErrorCode::invalid_argument, str(name_, " has no group '", group, "'"));
    budget_ = full_budget();
    const Hdf5Header header = header_at(found->second);
    if (const std::string* const info = header.find(kAttributeInfo)) {
      Fields one = fields(*info);
      one.skip(1);
      one.skip((one.number(1) & 1) != 0 ? 2 : 0);
      if (one.number(8) != kUndefined)
        unsupported(str('\'', group, "' has so many attributes that they lie in a heap", kRewrite));
    }
    const auto [first, last] = header.messages.equal_range(kAttribute);
    for (auto message = first; message != last; ++message)
      if (auto texts = texts_of(message->second, attribute, str("the attribute ", attribute, " of '", group, "' ")))
        return texts;
    return std::nullopt;
  }

  Hdf5Values values(const std::string& path) {
    const auto found = datasets_.find(path);
    if (found == datasets_.end()) throw Error(ErrorCode::invalid_argument, str(name_, " has no dataset '", path, "'"));
    budget_ = full_budget();
    const Hdf5Header header = header_at(found->second);
    const std::string where = str('\'', path, "' ");
    if (header.find(kExternalFiles)) unsupported(where + "has values that lie in other files, which are not read");
    const std::string* const datatype = header.find(kDatatype);
    const auto type = datatype ? parse_hdf5_datatype(*datatype) : std::nullopt;
    if (!type) unsupported(where + "has elements that are neither integers nor bfloat16 nor IEEE's floats");
    Hdf5Values values{.form = {type->dtype, sizes_of(header, where)}, .is_big_endian = type->is_big_endian};
    values.num_bytes = c10::elementSize(type->dtype);
    for (const int64_t size : values.form.sizes)
      if (size < 0 || __builtin_mul_overflow(values.num_bytes, static_cast<uint64_t>(size), &values.num_bytes))
        damaged(where + "has more elements than memory can hold");
    find_values(header, where, values);
    return values;
  }

  void read_values(const Hdf5Values& values, void* to) {
    if (values.address == kUndefined) {
      std::memcpy(to, values.compact.data(), values.compact.size());
      return;
    }
    stream_->seekg(static_cast<std::streamoff>(values.address));
    stream_->read(static_cast<char*>(to), static_cast<std::streamsize>(values.num_bytes));
    if (!*stream_) damaged("has become shorter since it was opened");
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw Error(ErrorCode::data_loss, str(name_, ": is damaged: ", what));
  }
  [[noreturn]] void unsupported(const std::string& what) const {
    throw Error(ErrorCode::unimplemented, str(name_, ": ", what));
  }

  // No file makes its reader go around in it for ever.
  uint64_t full_budget() const { return 8 * size_ + 4096; }

  // What is not a value.
  std::string bytes(uint64_t address, uint64_t count) {
    if (address > size_ || count > size_ - address) damaged(str("it ends before byte ", address, " + ", count));
    if (count > budget_) damaged("its parts refer to each other again and again");
    budget_ -= count;
    std::string result(count, '\0');
    stream_->seekg(static_cast<std::streamoff>(address));
    stream_->read(result.data(), static_cast<std::streamsize>(count));
    if (!*stream_) damaged(str("it cannot be read at byte ", address));
    return result;
  }
  Fields fields(std::string bytes) const { return {std::move(bytes), name_}; }

  // The address of the root's header.
  uint64_t root() {
    if (size_ < kHdf5Signature.size() || bytes(0, kHdf5Signature.size()) != kHdf5Signature)
      damaged("it does not begin as an HDF5 file");
    Fields block = fields(bytes(0, std::min<uint64_t>(size_, 100)));
    block.skip(kHdf5Signature.size());
    const uint64_t version = block.number(1);
    if (version > 1) unsupported(str("has a superblock of version ", version, ", later than 1", kRewrite));
    block.skip(4);
    if (block.number(1) != 8 || block.number(1) != 8)
      unsupported(str("has addresses or lengths that are not of 8 bytes", kRewrite));
    block.skip(version == 0 ? 9 : 13);
    if (block.number(8) != 0) unsupported("does not begin with HDF5's own bytes");
    block.skip(8);
    if (const uint64_t end = block.number(8); end > size_) damaged(str("it has ", size_, " of its ", end, " bytes"));
    block.skip(16);
    return block.number(8);
  }

  Hdf5Header header_at(uint64_t address) {
    Fields prefix = fields(bytes(address, 16));
    const uint64_t version = prefix.number(1);
    if (version == 'O') unsupported(str("has object headers of version 2", kRewrite));
    if (version != 1) damaged(str("there is no object header at byte ", address));
    prefix.skip(1);
    uint64_t num_messages = prefix.number(2);
    prefix.skip(4);
    std::vector<std::pair<uint64_t, uint64_t>> blocks{{address + 16, prefix.number(4)}};
    Hdf5Header header;
    for (size_t i = 0; i < blocks.size(); ++i) {
      Fields block = fields(bytes(blocks[i].first, blocks[i].second));
      for (; num_messages > 0 && block.left() >= 8; --num_messages) {
        const auto type = static_cast<uint16_t>(block.number(2));
        const uint64_t size = block.number(2), flags = block.number(1);
        block.skip(3);
        std::string message = block.text(size);
        if ((flags & 2) != 0 && type <= kSymbolTable) unsupported("has messages that objects share");
        if (type == kContinuation) {
          Fields next = fields(std::move(message));
          const uint64_t at = next.number(8);
          blocks.emplace_back(at, next.number(8));
        } else {
          header.messages.emplace(type, std::move(message));
        }
      }
    }
    return header;
  }

  void list_group(uint64_t address, const std::string& path, size_t depth) {
    if (depth > kMaxDepth) damaged(str("it has more than ", kMaxDepth, " groups in each other"));
    const Hdf5Header header = header_at(address);
    if (header.find(kSymbolTable) || header.find(kLinkInfo))
      groups_[path.substr(0, path.empty() ? 0 : path.size() - 1)] = address;
    if (const std::string* const table = header.find(kSymbolTable)) {
      Fields addresses = fields(*table);
      const uint64_t tree = addresses.number(8);
      list_tree(tree, heap_at(addresses.number(8)), path, depth, 0);
    } else if (const std::string* const info = header.find(kLinkInfo)) {
      Fields one = fields(*info);
      one.skip(1);
      one.skip((one.number(1) & 1) != 0 ? 8 : 0);
      if (one.number(8) != kUndefined)
        unsupported(str("has a group of so many links that they lie in a heap", kRewrite));
      const auto [first, last] = header.messages.equal_range(kLink);
      for (auto link = first; link != last; ++link) list_link(link->second, path, depth);
    } else if (path.empty()) {
      damaged("its root is no group");
    } else if (header.find(kDataspace)) {
      if (!datasets_.emplace(path.substr(0, path.size() - 1), address).second)
        damaged(str("'", path, "' is there twice"));
    }
  }

  // The names of links.
  std::string heap_at(uint64_t address) {
    Fields heap = fields(bytes(address, 32));
    if (heap.text(4) != "HEAP") damaged(str("there is no heap at byte ", address));
    heap.skip(4);
    const uint64_t size = heap.number(8);
    heap.skip(8);
    return bytes(heap.number(8), size);
  }

  void list_tree(uint64_t address, const std::string& heap, const std::string& path, size_t depth, size_t level) {
    if (level > kMaxDepth) damaged("a tree of links is too deep");
    if (const std::string kind = bytes(address, 4); kind == "SNOD") return list_symbols(address, heap, path, depth);
    Fields node = fields(bytes(address, 24));
    if (node.text(4) != "TREE" || node.number(1) != 0) damaged(str("there is no tree of links at byte ", address));
    node.skip(1);
    const uint64_t count = node.number(2);
    Fields children = fields(bytes(address + 24, 16 * count));
    for (uint64_t i = 0; i < count; ++i) {
      children.skip(8);
      list_tree(children.number(8), heap, path, depth, level + 1);
    }
  }

  void list_symbols(uint64_t address, const std::string& heap, const std::string& path, size_t depth) {
    Fields head = fields(bytes(address, 8));
    head.skip(6);
    const uint64_t count = head.number(2);
    Fields symbols = fields(bytes(address + 8, 40 * count));
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t name = symbols.number(8), object = symbols.number(8), kind = symbols.number(4);
      symbols.skip(20);
      if (name >= heap.size()) damaged(str("a link in '", path, "' has no name"));
      const size_t end = std::min(heap.find('\0', name), heap.size());
      list_object(path, heap.substr(name, end - name), kind == 2 ? kUndefined : object, depth);
    }
  }

  void list_link(const std::string& message, const std::string& path, size_t depth) {
    Fields link = fields(message);
    link.skip(1);
    const uint64_t flags = link.number(1);
    const uint64_t kind = (flags & 8) != 0 ? link.number(1) : 0;
    link.skip(((flags & 4) != 0 ? 8 : 0) + ((flags & 16) != 0 ? 1 : 0));
    const std::string name = link.text(link.number(size_t{1} << (flags & 3)));
    list_object(path, name, kind == 0 ? link.number(8) : kUndefined, depth);
  }

  // `address` is undefined for a link to a name, which may be one of another file.
  void list_object(const std::string& path, const std::string& name, uint64_t address, size_t depth) {
    if (name.empty() || name.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
      damaged(str("a link in '", path, "' has no name"));
    if (address == kUndefined) unsupported(str("'", path, name, "' is a link to a name, which is not followed"));
    list_group(address, str(path, name, '/'), depth + 1);
  }

  // Of an attribute's message, if it is the one of that name.
  std::optional<std::vector<std::string>> texts_of(const std::string& message, const std::string& name,
                                                   const std::string& where) {
    Fields attribute = fields(message);
    const uint64_t version = attribute.number(1), flags = attribute.number(1);
    if (version < 1 || version > 3) damaged(str("there is an attribute of version ", version));
    const uint64_t name_size = attribute.number(2), type_size = attribute.number(2), space_size = attribute.number(2);
    attribute.skip(version == 3 ? 1 : 0);
    const auto part = [&](uint64_t size) {
      std::string bytes = attribute.text(size);
      attribute.skip(version == 1 ? (8 - size % 8) % 8 : 0);
      return bytes;
    };
    if (part(name_size) != name + '\0') return std::nullopt;
    if (version > 1 && (flags & 3) != 0) unsupported(where + "has a datatype or shape that objects share");
    const std::string type_bytes = part(type_size);
    uint64_t count = 1;
    for (const int64_t size : sizes_in(part(space_size), where))
      if (size < 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(size), &count))
        damaged(where + "has more elements than memory can hold");
    return count == 0 ? std::vector<std::string>() : texts_in(attribute, fields(type_bytes), count, where);
  }

  // Of fixed lengths, or each in a heap of the file.
  std::vector<std::string> texts_in(Fields& values, Fields type, uint64_t count, const std::string& where) {
    constexpr uint64_t kFixed = 3, kAnyLength = 9;
    const uint64_t kind = type.number(1) & 0x0F, flags = type.number(1);
    type.skip(2);
    const uint64_t size = type.number(4);
    if (kind != kFixed && (kind != kAnyLength || (flags & 0x0F) != 1)) unsupported(where + "is no text");
    if (kind == kFixed && size == 0) damaged(where + "has texts of no bytes");
    std::vector<std::string> texts;
    for (uint64_t i = 0; i < count; ++i) {
      if (kind == kAnyLength) {
        const uint64_t length = values.number(4), heap = values.number(8);
        texts.push_back(text_in_heap(heap, values.number(4), length, where));
      } else {
        std::string text = values.text(size);
        const size_t end = text.find_last_not_of((flags & 0x0F) == 2 ? ' ' : '\0');
        texts.push_back(text.substr(0, (flags & 0x0F) == 0 ? text.find('\0') : end + 1));
      }
    }
    return texts;
  }

  std::string text_in_heap(uint64_t address, uint64_t index, uint64_t length, const std::string& where) {
    if (length == 0) return "";
    auto heap = text_heaps_.find(address);
    if (heap == text_heaps_.end()) heap = text_heaps_.emplace(address, read_text_heap(address)).first;
    const auto text = heap->second.find(index);
    if (text == heap->second.end() || text->second.size() < length)
      damaged(str(where, "has text that is not in its heap at byte ", address));
    return text->second.substr(0, length);
  }

  // What lies in a heap, by its number.
  std::map<uint64_t, std::string> read_text_heap(uint64_t address) {
    constexpr uint64_t kHeadBytes = 16;
    Fields head = fields(bytes(address, kHeadBytes));
    if (head.text(4) != "GCOL") damaged(str("there is no heap of values at byte ", address));
    head.skip(4);
    const uint64_t size = head.number(8);
    if (size < kHeadBytes) damaged(str("the heap at byte ", address, " is smaller than its head"));
    Fields objects = fields(bytes(address + kHeadBytes, size - kHeadBytes));
    std::map<uint64_t, std::string> values;
    while (objects.left() >= kHeadBytes) {
      const uint64_t index = objects.number(2);
      objects.skip(6);
      const uint64_t num_bytes = objects.number(8);
      if (index == 0) break;  // the rest is free
      values[index] = objects.text(num_bytes);
      objects.skip(std::min((8 - num_bytes % 8) % 8, objects.left()));
    }
    return values;
  }

  std::vector<int64_t> sizes_of(const Hdf5Header& header, const std::string& where) const {
    const std::string* const message = header.find(kDataspace);
    if (!message) damaged(where + "has no shape");
    return sizes_in(*message, where);
  }

  std::vector<int64_t> sizes_in(const std::string& message, const std::string& where) const {
    Fields space = fields(message);
    const uint64_t version = space.number(1), rank = space.number(1);
    space.skip(1);
    const uint64_t kind = space.number(1);  // of version 2
    if (version < 1 || version > 2 || (version == 2 && kind > 1)) damaged(where + "has no shape");
    space.skip(version == 1 ? 4 : 0);
    std::vector<int64_t> sizes;
    for (uint64_t axis = 0; axis < rank; ++axis) sizes.push_back(static_cast<int64_t>(space.number(8)));
    return sizes;
  }

  // That they are in one piece, in the file, and as many as the shape says.
  void find_values(const Hdf5Header& header, const std::string& where, Hdf5Values& values) const {
    const std::string* const message = header.find(kLayout);
    if (!message) damaged(where + "has no values");
    Fields layout = fields(*message);
    const uint64_t version = layout.number(1);
    if (version < 3 || version > 4) unsupported(str(where, "is laid out in version ", version, kRewrite));
    const uint64_t kind = layout.number(1);
    if (kind == 3) unsupported(where + "has values that lie in other files, which are not read");
    if (kind == 2)
      unsupported(
          where +
          "has values in chunks, as compressed ones are; `h5repack -f NONE -l CONTI` makes a file with whole ones");
    if (kind > 3) damaged(where + "has no values");
    uint64_t count = 0;
    if (kind == 0) {
      count = layout.number(2);
      values.compact = layout.text(count);
    } else {
      values.address = layout.number(8);
      count = layout.number(8);
    }
    const bool is_inside = kind == 0 || count == 0 || (count <= size_ && values.address <= size_ - count);
    if (count == 0) values.address = kUndefined;
    if (count != values.num_bytes || !is_inside)
      damaged(str(where, "is of ", c10::toString(values.form.dtype), ' ', str_list(values.form.sizes),
                  ", and there is not so much of it"));
  }

  std::string name_;
  std::unique_ptr<std::istream> stream_;
  uint64_t size_;
  uint64_t budget_;                           // how many bytes bytes() still gives
  std::map<std::string, uint64_t> datasets_;  // where their headers are
  std::map<std::string, uint64_t> groups_;
  std::map<uint64_t, std::map<uint64_t, std::string>> text_heaps_;  // those that were read
};

Hdf5Reader::Hdf5Reader(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path))
    throw Error(ErrorCode::not_found, str("HDF5: there is no file '", path.string(), "'"));
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*stream) throw Error(ErrorCode::unavailable, str("HDF5: cannot open '", path.string(), "'"));
  file_ = std::make_unique<File>(std::move(stream), std::filesystem::file_size(path), path.string());
}

Hdf5Reader::Hdf5Reader(std::string bytes, const std::string& name) {
  const uint64_t size = bytes.size();
  file_ = std::make_unique<File>(std::make_unique<std::istringstream>(std::move(bytes)), size, name);
}

Hdf5Reader::~Hdf5Reader() = default;

std::vector<std::string> Hdf5Reader::datasets() const {
  std::vector<std::string> paths;
  for (const auto& [path, address] : file_->datasets()) paths.push_back(path);
  return paths;
}

bool Hdf5Reader::has_group(const std::string& path) const { return file_->groups().contains(path); }

std::optional<std::vector<std::string>> Hdf5Reader::texts(const std::string& group,
                                                          const std::string& attribute) const {
  return file_->texts(group, attribute);
}

Hdf5Form Hdf5Reader::form(const std::string& path) const { return file_->values(path).form; }

Tensor Hdf5Reader::read(const std::string& path) const {
  const Hdf5Values values = file_->values(path);
  Tensor result(at::detail::empty_cpu(values.form.sizes, values.form.dtype));  // plain in an open scope too
  if (values.num_bytes == 0) return result;
  auto* const bytes = static_cast<std::byte*>(result.mutable_data_ptr());
  file_->read_values(values, bytes);
  if (values.is_big_endian) reverse_bytes_of_each(bytes, values.num_bytes, c10::elementSize(values.form.dtype));
  return result;
}

}  // namespace tutti::files
