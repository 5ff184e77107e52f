#include "tutti/files/hdf5_writer.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/files/hdf5_datatype.h"
#include "tutti/files/new_file.h"
#include "tutti/files/packed.h"

namespace tutti::files {
namespace {

constexpr uint64_t kNowhere = UINT64_MAX;  // an address
constexpr size_t kMaxName = 60'000;        // as a message of a header has at most 65,535 bytes

// Of as many bytes, little-endian.
std::string number_field(uint64_t value, size_t width) {
  std::string bytes(width, '\0');
  std::memcpy(bytes.data(), &value, std::min(width, sizeof value));
  return bytes;
}

std::string padded_to_8(std::string bytes) {
  bytes.resize((bytes.size() + 7) / 8 * 8);
  return bytes;
}

// What an object is, in messages.
class HeaderWriter {
 public:
  void add(uint16_t type, std::string message, uint8_t flags = 0) {
    message = padded_to_8(std::move(message));
    bytes_ += number_field(type, 2) + number_field(message.size(), 2) + number_field(flags, 4) + message;
    ++count_;
  }

  // Version 1: how many messages, one reference, their bytes.
  std::string bytes() const {
    return number_field(1, 2) + number_field(count_, 2) + number_field(1, 4) + number_field(bytes_.size(), 8) + bytes_;
  }
  size_t count() const { return count_; }

 private:
  std::string bytes_;
  size_t count_ = 0;
};

struct Hdf5Node {
  const Tensor* dataset = nullptr;  // else it is a group
  std::map<std::string, Hdf5Node> children = {};
};

// Where the root's header is, and how many bytes there are.
struct Hdf5Layout {
  uint64_t root = 0;
  uint64_t end = 0;
};

class Hdf5Writer {
 public:
  // Without a sink the bytes are only counted.
  explicit Hdf5Writer(std::optional<FunctionRef<void(std::string_view)>> sink = {}) : sink_(sink) {}

  // Values and headers from the leaves up, as a group names the addresses of what is in it, behind a superblock that
  // knows the last of them.
  Hdf5Layout write_file(const Hdf5Node& root, const Hdf5Layout& known) {
    write("\x89HDF\r\n\x1a\n" + number_field(0, 5) + number_field(0x0808, 3) + number_field(4, 2) +
          number_field(16, 2) + number_field(0, 4) + number_field(0, 8) + number_field(kNowhere, 8) +
          number_field(known.end, 8) + number_field(kNowhere, 8) + number_field(0, 8) + number_field(known.root, 8) +
          number_field(0, 24));
    const uint64_t root_address = write_node(root);
    return {.root = root_address, .end = end_};
  }

 private:
  uint64_t write_node(const Hdf5Node& node) { return node.dataset ? write_dataset(*node.dataset) : write_group(node); }

  uint64_t write_group(const Hdf5Node& group) {
    HeaderWriter header;
    header.add(0x02,
               number_field(0, 2) + number_field(kNowhere, 8) + number_field(kNowhere, 8));  // of the links: all here
    header.add(0x0A, number_field(0, 2), /*flags=*/1);
    for (const auto& [name, child] : group.children)  // version 1, a name in UTF-8 with a length of 8 bytes
      header.add(
          0x06, number_field(0x01'13'01, 3) + number_field(name.size(), 8) + name + number_field(write_node(child), 8));
    return write(header.bytes());
  }

  uint64_t write_dataset(const Tensor& tensor) {
    const std::string type = hdf5_datatype(tensor.scalar_type());
    const auto num_bytes = static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
    const uint64_t address = num_bytes == 0 ? kNowhere : end_;
    if (sink_) {
      const Tensor values = packed(tensor, "write_hdf5");
      (*sink_)({static_cast<const char*>(values.const_data_ptr()), num_bytes});
    }
    end_ += num_bytes;
    write(std::string((8 - end_ % 8) % 8, '\0'));

    HeaderWriter header;
    std::string space = number_field(1, 1) + number_field(static_cast<uint64_t>(tensor.dim()), 7);
    for (const int64_t size : tensor.sizes()) space += number_field(static_cast<uint64_t>(size), 8);
    header.add(0x01, space);
    header.add(0x03, type, /*flags=*/1);
    header.add(0x05, number_field(0x01'02'02'02, 8), /*flags=*/1);  // what is not written is 0
    header.add(0x08, number_field(0x01'03, 2) + number_field(address, 8) + number_field(num_bytes, 8));
    if (tensor.scalar_type() == at::kBFloat16) header.add(0x0C, bfloat16_attribute());
    return write(header.bytes());
  }

  // dtype = "bfloat16", as Keras looks for it: text of any length, which lies in a heap of its own.
  std::string bfloat16_attribute() {
    constexpr uint64_t kHeapBytes = 4096;
    if (text_heap_ == kNowhere) {
      std::string heap = "GCOL" + number_field(1, 4) + number_field(kHeapBytes, 8);
      heap += number_field(1, 2) + number_field(1, 6) + number_field(8, 8) + "bfloat16";
      heap += number_field(0, 8) + number_field(kHeapBytes - heap.size(), 8);  // the rest is free
      heap.resize(kHeapBytes);
      text_heap_ = write(heap);
    }
    const std::string type = number_field(0x01'01'19, 4) + number_field(16, 4) + number_field(0x10, 4) +
                             number_field(1, 4) + number_field(0x08'00'00, 4);
    const std::string scalar = number_field(1, 8);
    return number_field(1, 2) + number_field(6, 2) + number_field(type.size(), 2) + number_field(scalar.size(), 2) +
           padded_to_8(std::string("dtype\0", 6)) + padded_to_8(type) + scalar + number_field(8, 4) +
           number_field(text_heap_, 8) + number_field(1, 4);
  }

  // Returns where.
  uint64_t write(const std::string& bytes) {
    if (sink_) (*sink_)(bytes);
    return std::exchange(end_, end_ + bytes.size());
  }

  std::optional<FunctionRef<void(std::string_view)>> sink_;
  uint64_t end_ = 0;
  uint64_t text_heap_ = kNowhere;
};

Hdf5Node& node_at(Hdf5Node& root, const std::string& path) {
  const auto refuse = [&](const char* what) {
    throw Error(ErrorCode::invalid_argument, str("write_hdf5: the path '", path, "' ", what));
  };
  Hdf5Node* node = &root;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end == begin) refuse("has an empty part");
    if (end - begin > kMaxName) refuse("has a part of more than 60,000 bytes");
    if (node->dataset) refuse("leads through a dataset");
    node = &node->children[path.substr(begin, end - begin)];
    begin = end + 1;
  }
  return *node;
}

void check_number_of_links(const Hdf5Node& node) {
  constexpr size_t kMaxLinks = 65'000;  // of the messages of a header
  if (node.children.size() > kMaxLinks)
    throw Error(ErrorCode::unimplemented,
                str("write_hdf5: a group has ", node.children.size(), " parts; at most ", kMaxLinks, " are supported"));
  for (const auto& [name, child] : node.children) check_number_of_links(child);
}

}  // namespace

struct Hdf5Bytes::Tree {
  std::map<std::string, Tensor> datasets;
  Hdf5Node root = {};
  Hdf5Layout layout = {};
};

Hdf5Bytes::Hdf5Bytes(std::map<std::string, Tensor> datasets, const std::vector<std::string>& groups)
    : tree_(std::make_unique<Tree>(Tree{.datasets = std::move(datasets)})) {
  for (const std::string& group : groups) node_at(tree_->root, group);
  for (const auto& [place, tensor] : tree_->datasets) {
    Hdf5Node& node = node_at(tree_->root, place);
    if (!node.children.empty())
      throw Error(ErrorCode::invalid_argument, str("write_hdf5: '", place, "' is a dataset and a group"));
    if (!tensor.defined() || tensor.layout() != at::kStrided) (void)packed(tensor, "write_hdf5");  // throws
    node.dataset = &tensor;
  }
  check_number_of_links(tree_->root);
  tree_->layout = Hdf5Writer().write_file(tree_->root, {});
}

Hdf5Bytes::~Hdf5Bytes() = default;

uint64_t Hdf5Bytes::size() const { return tree_->layout.end; }

void Hdf5Bytes::write(FunctionRef<void(std::string_view)> sink) const {
  Hdf5Writer(sink).write_file(tree_->root, tree_->layout);
}

void write_hdf5(const std::filesystem::path& path, const std::map<std::string, Tensor>& datasets,
                const std::vector<std::string>& groups) {
  write_hdf5(path, Hdf5Bytes(datasets, groups));
}

void write_hdf5(const std::filesystem::path& path, const Hdf5Bytes& bytes) {
  NewFile file(path);
  std::ofstream stream(file.part(), std::ios::binary);
  bytes.write([&](std::string_view piece) { stream.write(piece.data(), static_cast<std::streamsize>(piece.size())); });
  stream.close();
  if (!stream) throw Error(ErrorCode::unavailable, str("write_hdf5: cannot write '", path.string(), "'"));
  file.finish();
}

}  // namespace tutti::files
