#include "tutti/data/graph/state.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/data/graph/ops.h"
#include "tutti/device/gpu.h"

namespace tutti::data::graph {
namespace {

enum Form : int64_t { kValues, kRow };
enum Kind : int64_t { kTensor, kText, kDataset };
constexpr int64_t kMaxAxes = 64;
constexpr int kMaxDepth = 16;
constexpr int64_t kMaxEmpty =
    int64_t{1} << 31;          // the size of an empty tensor, its empty axes left out: no byte shows it
constexpr int64_t kHost = -1;  // in the place of a GPU's number
constexpr int64_t kNew = -1;   // in the place of a table's number: it follows

Tensor checked(const Tensor& state) {
  if (!state.defined() || state.dim() != 1 || state.scalar_type() != at::kByte)
    throw Error(ErrorCode::data_loss, "restoring an iterator: its state is not a tensor of bytes");
  return state.cpu().contiguous();
}

bool has_plain_values(at::ScalarType dtype) {
  if (dtype <= at::kBFloat16) return !c10::isQIntType(dtype);
  return c10::isFloat8Type(dtype) || dtype == at::kUInt16 || dtype == at::kUInt32 || dtype == at::kUInt64;
}

std::string text_of(const std::string& op, const std::vector<int64_t>& arguments) {
  std::string text = op;
  for (size_t i = 0; i < arguments.size(); ++i) text += str(i == 0 ? '(' : ',', arguments[i]);
  return arguments.empty() ? text : text + ')';
}

// Numbers of a dtype are as they are stored; a bool must be 0 or 1.
bool are_values(at::ScalarType dtype, const uint8_t* bytes, uint64_t count) {
  return dtype != at::kBool || std::all_of(bytes, bytes + count, [](uint8_t value) { return value <= 1; });
}

}  // namespace

StateWriter::StateWriter(Tables tables) : tables_(std::move(tables)) {
  for (size_t i = 0; i < tables_.size(); ++i) places_.emplace(tables_[i].get(), i);
}

StateWriter StateWriter::of_ops() {
  StateWriter writer({});
  writer.ops_only_ = true;
  return writer;
}

void StateWriter::graph(const Node& graph) {
  if (ops_only_) return;
  for (const Node* node : nodes_of(graph)) {
    if (node->table && places_.emplace(node->table.get(), tables_.size()).second) tables_.push_back(node->table);
    if (node->shared) node->shared->save(*this);
  }
}

void StateWriter::op(const std::string& name, const std::vector<int64_t>& arguments) {
  if (ops_only_) ops_.push_back(text_of(name, arguments));
  text(text_of(name, arguments));
}

void StateWriter::given_seed(std::optional<uint64_t> seed) {
  if (ops_only_ && seed) ops_.push_back(str("seed ", *seed));
}

void StateWriter::number(int64_t value) {
  if (!ops_only_) bytes_.number(value);
}

void StateWriter::text(const std::string& value) {
  if (!ops_only_) bytes_.text(value);
}

void StateWriter::leaf(const Leaf& leaf) {
  if (ops_only_) return;
  if (const auto* dataset = std::get_if<NodePtr>(&leaf)) {
    if (!(*dataset)->elements)
      throw Error(
          ErrorCode::failed_precondition,
          "saving an iterator: it keeps an element with a dataset that a function made; only those of window and "
          "group_by_window can be saved");
    number(kDataset);
    return elements(*(*dataset)->elements);
  }
  const auto* tensor = std::get_if<Tensor>(&leaf);
  number(tensor ? kTensor : kText);
  number(static_cast<int64_t>(shape_of(leaf).size()));
  for (const int64_t size : shape_of(leaf)) number(size);
  if (tensor) {
    if (tensor->layout() != at::kStrided)
      throw Error(ErrorCode::unimplemented, str("saving an iterator: an element is a sparse ", describe(leaf),
                                                "; make it dense with to_dense()"));
    if (!has_plain_values(tensor->scalar_type()))
      throw Error(ErrorCode::unimplemented, str("saving an iterator: an element is ", describe(leaf),
                                                "; convert it to a dtype of plain numbers, or save elsewhere"));
    number(is_gpu(tensor->device()) ? tensor->get_device() : kHost);
    const Tensor values = std::get<Tensor>(packed(tensor->cpu()));
    number(static_cast<int64_t>(values.scalar_type()));
    bytes_.raw(values.const_data_ptr(), values.nbytes());
  } else {
    for (const std::string& value : std::get<Strings>(leaf).values()) text(value);
  }
}

void StateWriter::element(const Element& element) {
  const auto place = places_.find(element.table());
  if (place == places_.end()) {
    number(kValues);
    values(element.leaves(), element.keys());
  } else {
    number(kRow);
    number(place->second);
    number(element.row());
  }
}

void StateWriter::values(const std::vector<Leaf>& leaves, const Keys& keys) {
  number(static_cast<int64_t>(leaves.size()));
  for (const Leaf& leaf : leaves) this->leaf(leaf);
  number(keys ? static_cast<int64_t>(keys->size()) : -1);
  if (!keys) return;
  for (const auto& dictionary : *keys) {
    number(static_cast<int64_t>(dictionary.size()));
    for (const std::string& key : dictionary) text(key);
  }
}

void StateWriter::elements(std::span<const Element> elements) {
  number(static_cast<int64_t>(elements.size()));
  for (const Element& element : elements) this->element(element);
}

void StateWriter::table(const std::shared_ptr<const Table>& table, std::optional<int64_t> rows) {
  const auto [place, is_new] = places_.emplace(table.get(), tables_.size());
  number(is_new ? kNew : place->second);
  if (!is_new || ops_only_) return;
  tables_.push_back(table);
  values(table->rows(0, rows.value_or(table->num_rows())), table->keys());
}

void StateWriter::error(const std::exception_ptr& error) {
  ErrorCode code = ErrorCode::failed_precondition;
  std::string what = "an exception that is no std::exception";
  try {
    std::rethrow_exception(error);
  } catch (const Error& error) {
    code = error.code();
    what = error.what();
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  number(static_cast<int64_t>(code));
  text(what);
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

void StateReader::graph(const Node& graph) {
  for (const Node* node : nodes_of(graph)) {
    if (node->table && std::ranges::find(tables_, node->table) == tables_.end()) tables_.push_back(node->table);
    if (node->shared) node->shared->restore(*this);
  }
}

void StateReader::op(const std::string& name, const std::vector<int64_t>& arguments) {
  constexpr size_t kShown = 200;
  const uint64_t begin = bytes_.position();
  const std::string expected = text_of(name, arguments);
  const std::string found = text();
  if (found == expected) return;
  throw Error(ErrorCode::failed_precondition,
              str("restoring an iterator: the state is of another dataset: byte ", begin, " begins '",
                  found.substr(0, kShown), "', where this dataset has '", expected, "'"));
}

Leaf StateReader::leaf() {
  const int64_t kind = number_in(kTensor, kDataset);
  if (kind == kDataset) {
    if (++depth_ > kMaxDepth) refuse("datasets in datasets");
    NodePtr dataset = from_elements(elements());
    --depth_;
    return dataset;
  }
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
  if (overflow || (count == 0 && stride > kMaxEmpty)) refuse(str("an element of shape ", str_list(sizes)));
  if (kind == kText) {
    if (static_cast<uint64_t>(count) > bytes_.left() / sizeof(int64_t)) refuse(str("text of shape ", str_list(sizes)));
    std::vector<std::string> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(text());
    return Strings(std::move(values), sizes);
  }
  const int64_t device = number_in(kHost, INT8_MAX);
  const auto dtype = static_cast<at::ScalarType>(number_in(0, static_cast<int64_t>(at::ScalarType::Undefined) - 1));
  if (!has_plain_values(dtype)) refuse(str("a tensor of dtype ", c10::toString(dtype)));
  const uint64_t width = c10::elementSize(dtype);
  if (static_cast<uint64_t>(count) > bytes_.left() / width) refuse(str("a tensor of shape ", str_list(sizes)));
  Tensor value = at::empty(sizes, dtype);
  const uint64_t num_bytes = static_cast<uint64_t>(count) * width;
  const uint8_t* const from = bytes_.raw(num_bytes);
  if (!are_values(dtype, from, num_bytes)) refuse("a bool that is neither 0 nor 1");
  if (num_bytes > 0) std::memcpy(value.mutable_data_ptr(), from, num_bytes);
  if (device == kHost) return value;
  try {
    return value.to(gpu_device(static_cast<int>(device)));
  } catch (const c10::Error&) {
    refuse(str("a tensor lay on cuda:", device, ", which cannot be used here"));
  }
}

Element StateReader::element() {
  if (number_in(kValues, kRow) == kRow) {
    if (tables_.empty()) refuse("a row of a table");
    const auto& table = tables_[static_cast<size_t>(number_in(0, static_cast<int64_t>(tables_.size()) - 1))];
    return Element(table, number_in(0, table->num_rows() - 1));
  }
  return values();
}

Element StateReader::values() {
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

std::vector<Element> StateReader::elements() {
  std::vector<Element> elements;
  for (int64_t left = bytes_.count(sizeof(int64_t)); left > 0; --left) elements.push_back(element());
  return elements;
}

std::shared_ptr<const Table> StateReader::table() {
  const int64_t place = number_in(kNew, static_cast<int64_t>(tables_.size()) - 1);
  if (place != kNew) return tables_[static_cast<size_t>(place)];
  const Element columns = values();
  try {
    tables_.push_back(std::make_shared<const Table>(columns.leaves(), columns.keys()));
  } catch (const Error& error) {
    refuse(error.what());
  }
  return tables_.back();
}

std::exception_ptr StateReader::error() {
  const auto code = static_cast<ErrorCode>(number_in(0, static_cast<int64_t>(ErrorCode::internal)));
  return std::make_exception_ptr(Error(code, text()));
}

void StateReader::restored() const {
  for (const auto& change : changes_) change();
}

}  // namespace tutti::data::graph
