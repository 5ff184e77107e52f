#include "tutti/data/graph/state.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"

namespace tutti::data::graph {
namespace {

enum Form : int64_t { kValues, kRow };
enum Kind : int64_t { kTensor, kText };
constexpr int64_t kMaxAxes = 64;

Tensor checked(const Tensor& state) {
  if (state.dim() != 1 || state.scalar_type() != at::kByte)
    throw Error(ErrorCode::data_loss, "restoring an iterator: its state is not a tensor of bytes");
  return state.cpu().contiguous();
}

}  // namespace

void StateWriter::leaf(const Leaf& leaf) {
  const auto* tensor = std::get_if<Tensor>(&leaf);
  number(tensor ? kTensor : kText);
  number(static_cast<int64_t>(shape_of(leaf).size()));
  for (const int64_t size : shape_of(leaf)) number(size);
  if (tensor) {
    const Tensor values = std::get<Tensor>(packed(tensor->cpu()));
    number(static_cast<int64_t>(values.scalar_type()));
    bytes_.raw(values.const_data_ptr(), values.nbytes());
  } else {
    for (const std::string& value : std::get<Strings>(leaf).values()) text(value);
  }
}

void StateWriter::element(const Element& element) {
  const auto found = std::ranges::find(tables_, element.table(), &std::shared_ptr<const Table>::get);
  if (element.table() && found != tables_.end()) {
    number(kRow);
    number(found - tables_.begin());
    number(element.row());
    return;
  }
  number(kValues);
  const std::vector<Leaf> leaves = element.leaves();
  number(static_cast<int64_t>(leaves.size()));
  for (const Leaf& leaf : leaves) this->leaf(leaf);
  number(element.keys() ? static_cast<int64_t>(element.keys()->size()) : -1);
  if (!element.keys()) return;
  for (const auto& dictionary : *element.keys()) {
    number(static_cast<int64_t>(dictionary.size()));
    for (const std::string& key : dictionary) text(key);
  }
}

Tensor StateWriter::finish() const {
  const std::vector<uint8_t>& bytes = bytes_.bytes();
  Tensor state = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::ranges::copy(bytes, state.mutable_data_ptr<uint8_t>());
  return state;
}

StateReader::StateReader(const Tensor& state, Tables tables)
    : state_(checked(state)),
      tables_(std::move(tables)),
      bytes_({state_.const_data_ptr<uint8_t>(), static_cast<size_t>(state_.numel())}, "restoring an iterator") {}

Leaf StateReader::leaf() {
  const int64_t kind = number_in(kTensor, kText);
  std::vector<int64_t> sizes(static_cast<size_t>(number_in(0, kMaxAxes)));
  int64_t count = 1;
  int64_t stride = 1;  // an empty axis counts as 1 in it
  bool overflow = false;
  for (int64_t& size : sizes) {
    size = number_in(0, INT64_MAX);
    if (size == 0) count = 0;
    overflow |= __builtin_mul_overflow(stride, std::max<int64_t>(size, 1), &stride);
  }
  count *= stride;
  if (overflow) bytes_.damaged(str("an element of shape ", str_list(sizes)));
  if (kind == kText) {
    if (static_cast<uint64_t>(count) > bytes_.left() / sizeof(int64_t))
      bytes_.damaged(str("text of shape ", str_list(sizes)));
    std::vector<std::string> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(text());
    return Strings(std::move(values), sizes);
  }
  const auto dtype = static_cast<at::ScalarType>(number_in(0, static_cast<int64_t>(at::kBFloat16)));
  if (c10::isQIntType(dtype)) bytes_.damaged("a quantized tensor");
  const uint64_t width = c10::elementSize(dtype);
  if (static_cast<uint64_t>(count) > bytes_.left() / width) bytes_.damaged(str("a tensor of shape ", str_list(sizes)));
  Tensor value = at::empty(sizes, dtype);
  const uint64_t num_bytes = static_cast<uint64_t>(count) * width;
  if (num_bytes > 0) std::memcpy(value.mutable_data_ptr(), bytes_.raw(num_bytes), num_bytes);
  return value;
}

Element StateReader::element() {
  if (number_in(kValues, kRow) == kRow) {
    if (tables_.empty()) bytes_.damaged("a row of a table");
    const auto& table = tables_[static_cast<size_t>(number_in(0, static_cast<int64_t>(tables_.size()) - 1))];
    return Element(table, number_in(0, table->num_rows() - 1));
  }
  std::vector<Leaf> leaves(static_cast<size_t>(bytes_.count(sizeof(int64_t))));
  for (Leaf& leaf : leaves) leaf = this->leaf();
  const int64_t dictionaries = number_in(-1, static_cast<int64_t>(bytes_.left() / sizeof(int64_t)));
  if (dictionaries < 0) return Element(std::move(leaves));
  std::vector<std::vector<std::string>> keys(static_cast<size_t>(dictionaries));
  for (auto& dictionary : keys) {
    dictionary.resize(static_cast<size_t>(bytes_.count(sizeof(int64_t))));
    for (std::string& key : dictionary) key = text();
  }
  return Element(std::move(leaves), std::make_shared<const Keys::element_type>(std::move(keys)));
}

}  // namespace tutti::data::graph
