#include "tutti/distribute/servers/served_state.h"

#include <cstring>
#include <utility>

#include "tutti/core/error.h"
#include "tutti/core/str.h"
#include "tutti/distribute/servers/long_message.h"
#include "tutti/tensor/absent_memory.h"
#include "tutti/tensor/host_memory.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::servers {
namespace {

// Whether its replicas have values that never become one.
bool has_no_value(const MeshTensorImpl& impl) {
  const auto* values = impl.replica_values();
  return values && values->policy() && values->policy()->on_read() &&
         values->policy()->aggregation == VariableAggregation::none;
}

void require_servable(const Tensor& tensor) {
  if (is_mesh_tensor(tensor)) {
    const auto& impl = mesh_impl(tensor);
    const bool is_plain = impl.whole() && in_host_memory(impl.components()[0]) && impl.components()[0].is_contiguous();
    if (is_plain && !has_no_value(impl)) return;
  }
  throw Error(
      ErrorCode::unimplemented,
      str("ParameterServerStrategy: a variable of shape ", str_list(tensor.sizes()),
          " cannot lie on servers; they keep dense, contiguous tensors in the memory of CPUs, which are not ON_READ "
          "without an aggregation"));
}

std::vector<Shard> shards_of(const ServerPlacement& placement) {
  std::vector<Shard> shards;
  int64_t first = 0;
  for (size_t i = 0; i < placement.rows.size(); ++i) {
    shards.push_back({placement.servers[i], first, placement.rows[i]});
    first += placement.rows[i];
  }
  return shards;
}

std::string describe(const ServedTensor& tensor) {
  std::string text = str(at::toString(tensor.dtype), ' ', str_list(tensor.sizes), tensor.is_trained ? ", trained" : "");
  for (const Shard& shard : tensor.shards) text += str(", ", shard.num_rows, " rows on ps ", shard.server);
  return text;
}

}  // namespace

ServedState::ServedState(int num_servers, Partitioner partitioner, std::optional<int64_t> largest_copy)
    : num_servers_(num_servers), largest_copy_(largest_copy), placer_(num_servers, std::move(partitioner)) {}

int ServedState::add_tensor(const Tensor& tensor, std::vector<Shard> shards, bool is_trained) {
  require_servable(tensor);
  mesh_impl(tensor).overwrite()[0].mutable_data_ptr();  // memory of its own, which nobody shares yet
  const int64_t num_rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  int64_t row_bytes = static_cast<int64_t>(tensor.element_size());
  for (int64_t axis = 1; axis < tensor.dim(); ++axis) row_bytes *= tensor.size(axis);
  tensors_.push_back({.impl = c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()),
                      .sizes = tensor.sizes().vec(),
                      .dtype = tensor.scalar_type(),
                      .is_trained = is_trained,
                      .num_rows = num_rows,
                      .row_bytes = row_bytes,
                      .shards = std::move(shards)});
  return num_tensors() - 1;
}

void ServedState::add_variable(const Tensor& variable) {
  if (find(variable)) return;
  require_servable(variable);
  const auto placement = placer_.place(variable.sizes(), variable.scalar_type());
  const int number = add_tensor(variable, shards_of(placement), variable.requires_grad());
  numbers_[variable.unsafeGetTensorImpl()] = number;
  if (!largest_copy_ || static_cast<int64_t>(variable.nbytes()) <= *largest_copy_) return;
  tensors_[static_cast<size_t>(number)].is_elsewhere = true;
  if (const Tensor& component = mesh_impl(variable).components()[0]; !is_absent(component)) make_absent(component);
}

int ServedState::add_optimizer(ServedOptimizer optimizer) {
  const auto refuse = [&](const char* why) {
    throw Error(ErrorCode::unimplemented,
                str("ParameterServerStrategy: ", optimizer.name, ' ', why,
                    "; clip gradients in the function, before apply_gradients, or use another optimizer"));
  };
  if (optimizer.needs_all_variables && num_servers_ > 1) refuse("looks at all gradients, which go to several servers");
  std::unordered_map<int, std::vector<int>> changes;
  for (size_t i = 0; i < optimizer.variables.size(); ++i) {
    const auto number = find(optimizer.variables[i]);
    if (!number)
      throw Error(ErrorCode::failed_precondition,
                  str(optimizer.name, ": variable ", i, " was not made in the strategy's build, with the others"));
    const std::vector<Shard> shards = (*this)[*number].shards;
    if (optimizer.needs_whole_variables && shards.size() > 1) refuse("looks at whole variables, of which one is cut");
    auto& changed = changes[*number];
    changed.push_back(*number);
    for (const Tensor& slot : optimizer.slots[i]) {
      auto where = shards;
      if (where.size() == 1) where[0].num_rows = slot.dim() == 0 ? 1 : slot.size(0);
      changed.push_back(add_tensor(slot, std::move(where), /*is_trained=*/true));
    }
  }
  changes_.push_back(std::move(changes));
  optimizers_.push_back(std::move(optimizer));
  optimizers_.back().variables.clear();  // they are known by number, and free to go
  optimizers_.back().slots.clear();
  return num_optimizers() - 1;
}

void ServedState::settle_optimizers() const {
  for (const ServedOptimizer& optimizer : optimizers_)
    if (optimizer.is_alive()) optimizer.settle();
}

Tensor ServedState::tensor(int number) const {
  if (auto impl = (*this)[number].impl.lock()) return Tensor(std::move(impl));
  throw Error(ErrorCode::failed_precondition,
              str("ParameterServerStrategy: tensor ", number, " (", servers::describe((*this)[number]),
                  ") was let go, and is asked for"));
}

std::optional<int> ServedState::find(const Tensor& tensor) const {
  const auto found = numbers_.find(tensor.unsafeGetTensorImpl());
  if (found == numbers_.end() || !is_alive(found->second)) return {};
  return found->second;
}

std::optional<int> ServedState::find_memory_of(const Tensor& tensor) const {
  const auto number = find(tensor);
  const auto& impl = mesh_impl(tensor);
  if (number || !impl.has_aliases()) return number;
  for (const auto& [variable, other] : numbers_)
    if (is_alive(other) && mesh_impl(this->tensor(other)).shares_memory_with(impl)) return other;
  return {};
}

std::vector<int> ServedState::variables_of(int optimizer) const {
  std::vector<int> variables;
  for (const auto& [variable, changed] : changes_[static_cast<size_t>(optimizer)])
    if (is_alive(variable)) variables.push_back(variable);
  return variables;
}

const std::vector<int>& ServedState::changed_by(int optimizer, int variable) const {
  static const std::vector<int> nothing;
  const auto& changes = changes_[static_cast<size_t>(optimizer)];
  const auto found = changes.find(variable);
  return found == changes.end() ? nothing : found->second;
}

std::vector<std::string> ServedState::describe() const {
  std::vector<std::string> lines;
  for (int i = 0; i < num_tensors(); ++i) lines.push_back(str("tensor ", i, ": ", servers::describe((*this)[i])));
  for (int i = 0; i < num_optimizers(); ++i)
    lines.push_back(str("optimizer ", i, ": ", optimizer(i).name, ", made at ", to_string(optimizer(i).location)));
  return lines;
}

char* ServedState::memory(int number) const {
  return const_cast<char*>(static_cast<const char*>(mesh_impl(tensor(number)).components()[0].const_data_ptr()));
}

size_t ServedState::bytes_on(int number, int server) const {
  const ServedTensor& of = (*this)[number];
  int64_t rows = 0;
  for (const Shard& shard : of.shards) rows += shard.server == server ? shard.num_rows : 0;
  return static_cast<size_t>(rows * of.row_bytes);
}

void ServedState::append(LongMessage& message, int number, int server) const {
  append_rows(message, number, server, memory(number));
}

void ServedState::append_rows(LongMessage& message, int number, int server, const void* whole,
                              const std::shared_ptr<const void>& owner) const {
  const ServedTensor& of = (*this)[number];
  const auto* const from = static_cast<const char*>(whole);
  for (const Shard& shard : of.shards)
    if (shard.server == server)
      message.part(from + shard.first_row * of.row_bytes, static_cast<size_t>(shard.num_rows * of.row_bytes), owner);
}

std::vector<int64_t> ServedState::read_rows(ByteReader& reader, int number, int server) const {
  const ServedTensor& of = (*this)[number];
  std::vector<int64_t> rows(static_cast<size_t>(reader.count(sizeof(int64_t))));
  size_t shard = 0;
  int64_t least = 0;
  for (int64_t& row : rows) {
    row = reader.number_in(least, of.num_rows - 1);
    least = row + 1;
    while (row >= of.shards[shard].first_row + of.shards[shard].num_rows) ++shard;
    if (of.shards[shard].server != server)
      reader.damaged(str("row ", row, " of tensor ", number, " is not on ps ", server));
  }
  return rows;
}

void ServedState::take(ByteReader& reader, int number, int server, char* memory) const {
  const ServedTensor& of = (*this)[number];
  for (const Shard& shard : of.shards) {
    const auto count = static_cast<size_t>(shard.num_rows * of.row_bytes);
    if (shard.server == server && count > 0)
      std::memcpy(memory + shard.first_row * of.row_bytes, read_part(reader, count), count);
  }
}

}  // namespace tutti::servers
