#include "tutti/distribute/servers/worker_copies.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "tutti/core/str.h"
#include "tutti/tensor/host_memory.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti::servers {
namespace {

// Bytes of a plain tensor.
std::span<const uint8_t> bytes_of(const Tensor& tensor) {
  return {static_cast<const uint8_t*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// A gradient as it travels: plain, of the variable's dtype.
Tensor traveling(const Tensor& gradient, const ServedTensor& of, size_t position) {
  if (gradient.sizes() != at::IntArrayRef(of.sizes))
    throw Error(ErrorCode::invalid_argument,
                str("apply_gradients: gradient ", position, " has shape ", str_list(gradient.sizes()),
                    ", its variable has ", str_list(of.sizes), "; they must be equal"));
  if (!is_mesh_tensor(gradient) && in_host_memory(gradient) && gradient.is_contiguous() &&
      gradient.scalar_type() == of.dtype)
    return gradient;
  const Tensor plain = gather(gradient).detach().to(at::kCPU, of.dtype);
  return plain.is_sparse() && plain.sparse_dim() == 1 ? plain.coalesce() : plain.to_dense().contiguous();
}

}  // namespace

WorkerCopies::Copy& WorkerCopies::copy(int number) {
  if (copies_.size() <= static_cast<size_t>(number)) copies_.resize(static_cast<size_t>(number) + 1);
  return copies_[static_cast<size_t>(number)];
}

void WorkerCopies::begin(Call call, int64_t first_open, std::optional<Call> next) {
  const std::lock_guard lock(mutex_);
  if (!ahead_.tensors.empty() && next_->number != call.number) ahead_ = {};
  call_ = call;
  next_ = next;
  first_open_ = first_open;
  num_pushed_ = 0;
  has_begun_ = false;
  if (read_by_.contains(call.function)) begin_moment();
}

void WorkerCopies::begin_moment_once() {
  if (!has_begun_) begin_moment();
}

void WorkerCopies::next_moment() {
  const std::lock_guard lock(mutex_);
  if (has_begun_) push_differences();
  ahead_ = {};
  begin_moment();
}

void WorkerCopies::begin_moment() {
  has_begun_ = true;
  ++moment_;
  for (int number = 0; number < state_.num_tensors(); ++number) {
    if (!state_.is_alive(number)) continue;
    Copy& copied = copy(number);
    if (state_[number].is_elsewhere) {
      copied.values = {};
      copied.places.clear();
    }
    copied.writes = mesh_impl(state_.tensor(number)).writes();
  }
  bring(wanted_by(call_.function));
}

// What it read in the calls before, and all buffers.
std::vector<int> WorkerCopies::wanted_by(int function) {
  std::set<int> wanted = read_by_[function];
  for (int number = 0; number < state_.num_tensors(); ++number) {
    if (!state_.is_alive(number))
      wanted.erase(number);
    else if (!state_[number].is_elsewhere && !state_[number].is_trained && state_.find(state_.tensor(number)))
      wanted.insert(number);
  }
  return {wanted.begin(), wanted.end()};
}

// Replicas may be computing, on what they have read: nobody has read these yet.
void WorkerCopies::bring(std::span<const int> numbers) {
  const GlobalViewGuard global_view;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::NoGradGuard no_grad;
  std::vector<int> changed_buffers;
  const auto memory = [&](int number) {
    if (state_[number].is_trained) return state_.memory(number);
    if (std::ranges::find(changed_buffers, number) == changed_buffers.end()) changed_buffers.push_back(number);
    return static_cast<char*>(mesh_impl(state_.tensor(number)).overwrite()[0].mutable_data_ptr());
  };
  Ahead ahead = std::exchange(ahead_, {});
  if (!std::ranges::equal(ahead.tensors, numbers)) ahead = {};
  for (const auto& [server, answer] : ahead.answers) {
    ByteReader reader(answer.first, "values that a server has sent along");
    reader.raw(answer.second);
    read_pull(reader, state_, known_, numbers, server, memory);
    reader.finish();
  }
  const auto write = [&](int server) -> std::optional<LongMessage> {
    if (ahead.answers.contains(server) || !has_any(state_, numbers, server)) return {};
    LongMessage message(Kind::pull);
    write_pull(message, state_, known_, numbers, server);
    return message;
  };
  requests_.ask(write,
                [&](int server, ByteReader& reader) { read_pull(reader, state_, known_, numbers, server, memory); });
  for (const int number : changed_buffers) {
    auto& impl = mesh_impl(state_.tensor(number));
    if (!impl.is_inference()) impl.bump_version();
    impl.finish_write();
  }
  for (const int number : numbers) {
    Copy& brought = copy(number);
    brought.whole_in = moment_;
    if (state_[number].is_trained) continue;
    const auto bytes = bytes_of(mesh_impl(state_.tensor(number)).read()[0]);
    brought.begun.assign(bytes.begin(), bytes.end());
  }
}

void WorkerCopies::refuse_whole(int number) const {
  const ServedTensor& of = state_[number];
  throw Error(ErrorCode::failed_precondition,
              str("a worker's function reads variable ", number, " of shape ", str_list(of.sizes), ", ",
                  of.num_rows * of.row_bytes, " bytes, of which it has no copy: largest_copy_bytes of the strategy is ",
                  *state_.largest_copy(),
                  ". Look rows up (embedding, embedding_bag, index_select along the rows), or raise the limit"));
}

void WorkerCopies::read(const Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  begin_moment_once();
  const auto number = state_.find(tensor);
  if (!number || is_whole(*number)) return;
  if (state_[*number].is_elsewhere) refuse_whole(*number);
  read_by_[call_.function].insert(*number);
  bring(std::vector<int>{*number});
}

std::optional<LookedUpRows> WorkerCopies::read_rows(const Tensor& table, const Tensor& ids) {
  const std::lock_guard lock(mutex_);
  begin_moment_once();
  const auto number = state_.find(table);
  if (!number || is_whole(*number)) return {};
  const ServedTensor& of = state_[*number];
  std::vector<int64_t> rows(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel());
  std::erase_if(rows, [&](int64_t row) { return row < 0 || row >= of.num_rows; });  // the op refuses them
  std::ranges::sort(rows);
  rows.erase(std::ranges::unique(rows).begin(), rows.end());
  if (of.is_elsewhere) return look_up(*number, std::move(rows));
  Copy& copied = copy(*number);
  if (copied.rows_in != moment_) {
    copied.rows_in = moment_;
    copied.has_row.assign(static_cast<size_t>(of.num_rows), false);
    copied.rows.clear();
    known_.forget(*number);
  }
  std::erase_if(rows, [&](int64_t row) { return copied.has_row[static_cast<size_t>(row)]; });
  for (const int64_t row : rows) copied.has_row[static_cast<size_t>(row)] = true;
  char* const memory = state_.memory(*number);
  bring_rows(*number, rows, [&](int64_t row) { return memory + row * of.row_bytes; });
  copied.rows.insert(copied.rows.end(), rows.begin(), rows.end());
  return {};
}

// Those that the function has looked up before in this moment are here.
LookedUpRows WorkerCopies::look_up(int number, std::vector<int64_t> rows) {
  const ServedTensor& of = state_[number];
  const auto row_bytes = static_cast<size_t>(of.row_bytes);
  Copy& copied = copy(number);
  std::vector<int64_t> missing;
  std::ranges::copy_if(rows, std::back_inserter(missing), [&](int64_t row) { return !copied.places.contains(row); });
  const size_t first = copied.values.size();
  copied.values.resize(first + missing.size() * row_bytes);
  std::unordered_map<int64_t, size_t> new_places;
  for (size_t i = 0; i < missing.size(); ++i) new_places[missing[i]] = first + i * row_bytes;
  const auto bytes_at = [&](size_t place) { return reinterpret_cast<char*>(copied.values.data() + place); };
  bring_rows(number, missing, [&](int64_t row) { return bytes_at(new_places.at(row)); });
  copied.places.merge(new_places);

  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<int64_t> sizes = of.sizes;
  sizes[0] = static_cast<int64_t>(rows.size());
  const LookedUpRows looked_up{.numbers = at::tensor(rows, at::kLong),
                               .values = at::empty(sizes, at::TensorOptions().dtype(of.dtype))};
  auto* next = static_cast<char*>(looked_up.values.mutable_data_ptr());
  for (const int64_t row : rows) {
    std::memcpy(next, bytes_at(copied.places.at(row)), row_bytes);
    next += row_bytes;
  }
  return looked_up;
}

// Each row behind the one before.
void WorkerCopies::bring_rows(int number, std::span<const int64_t> rows, FunctionRef<char*(int64_t row)> place) {
  if (rows.empty()) return;
  ahead_ = {};  // what is brought later goes before
  const ServedTensor& of = state_[number];
  const auto rows_on = [&](int server) {
    std::vector<int64_t> here;
    auto row = rows.begin();
    for (const Shard& shard : of.shards)
      for (; row != rows.end() && *row < shard.first_row + shard.num_rows; ++row)
        if (shard.server == server) here.push_back(*row);
    return here;
  };
  requests_.ask(
      [&](int server) -> std::optional<LongMessage> {
        const auto here = rows_on(server);
        if (here.empty()) return {};
        LongMessage message(Kind::pull_rows);
        message.number(number);
        message.number(static_cast<int64_t>(here.size()));
        message.raw(here.data(), here.size() * sizeof(int64_t));
        return message;
      },
      [&](int server, ByteReader& reader) {
        for (const int64_t row : rows_on(server))
          std::memcpy(place(row), reader.raw(static_cast<uint64_t>(of.row_bytes)), static_cast<size_t>(of.row_bytes));
      });
}

// Of a table that was only looked up, the rows that were; else none: all travel.
std::vector<int64_t> WorkerCopies::rows_to_push(int number, const Tensor& gradient) {
  if (gradient.is_sparse()) {
    const Tensor ids = gradient.indices()[0].contiguous();
    return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel()};
  }
  Copy& copied = copy(number);
  if (copied.whole_in == moment_ || copied.rows_in != moment_) return {};
  std::ranges::sort(copied.rows);
  return copied.rows;
}

void WorkerCopies::append_gradient(LongMessage& message, int server, int number, const Tensor& gradient) {
  const ServedTensor& of = state_[number];
  const std::vector<int64_t> rows = rows_to_push(number, gradient);
  const bool has_rows = gradient.is_sparse() || !rows.empty();
  message.number(number);
  message.number(has_rows);
  if (!has_rows) {
    const auto bytes = bytes_of(gradient);
    const auto owner = std::make_shared<const Tensor>(gradient);
    for (const Shard& shard : of.shards)
      if (shard.server == server)
        message.part(bytes.data() + shard.first_row * of.row_bytes, static_cast<size_t>(shard.num_rows * of.row_bytes),
                     owner);
    return;
  }
  std::vector<int64_t> here;
  std::vector<size_t> places;  // of them, among the rows
  size_t place = 0;
  for (const Shard& shard : of.shards)
    for (; place < rows.size() && rows[place] < shard.first_row + shard.num_rows; ++place)
      if (shard.server == server) {
        here.push_back(rows[place]);
        places.push_back(place);
      }
  message.number(static_cast<int64_t>(here.size()));
  message.raw(here.data(), here.size() * sizeof(int64_t));
  const Tensor values = gradient.is_sparse() ? gradient.values().contiguous() : gradient;
  const auto bytes = bytes_of(values);
  const auto row_bytes = static_cast<size_t>(of.row_bytes);
  for (size_t i = 0; i < here.size(); ++i) {
    const size_t from = gradient.is_sparse() ? places[i] : static_cast<size_t>(here[i]);
    message.raw(bytes.data() + from * row_bytes, row_bytes);
  }
}

std::optional<LongMessage> WorkerCopies::push_message(int server, int optimizer, double scale,
                                                      std::span<const int> numbers, std::span<const Tensor> gradients,
                                                      std::span<const int> wanted) {
  std::vector<size_t> here;
  for (size_t i = 0; i < numbers.size(); ++i)
    if (std::ranges::any_of(state_[numbers[i]].shards, [&](const Shard& shard) { return shard.server == server; }))
      here.push_back(i);
  if (here.empty()) return {};
  LongMessage message(Kind::push);
  message.number(call_.number);
  message.number(num_pushed_);
  message.number(first_open_);
  message.number(optimizer);
  message.raw(&scale, sizeof scale);
  write_pull(message, state_, known_, wanted, server);
  message.number(static_cast<int64_t>(here.size()));
  for (const size_t i : here) append_gradient(message, server, numbers[i], gradients[i]);
  return message;
}

// With the last update that the function is about to make, as its last call had it, comes what the next call is to
// read: that call was there before, so what it reads need not be later.
void WorkerCopies::send_push(int optimizer, double scale, std::span<const int> numbers,
                             std::span<const Tensor> gradients) {
  ahead_ = {};
  const auto last = pushes_of_.find(call_.function);
  const bool is_last = last != pushes_of_.end() && num_pushed_ + 1 == last->second;
  Ahead ahead;
  if (next_ && is_last && read_by_.contains(next_->function)) ahead.tensors = wanted_by(next_->function);
  requests_.ask([&](int server) { return push_message(server, optimizer, scale, numbers, gradients, ahead.tensors); },
                [&](int server, ByteReader& reader, const Incoming& answer) {
                  if (!has_any(state_, ahead.tensors, server)) return;
                  ahead.answers.try_emplace(server, answer, reader.position());
                  reader.raw(reader.left());
                });
  ++num_pushed_;
  ahead_ = std::move(ahead);
}

void WorkerCopies::push(int optimizer, std::span<const Tensor> gradients, std::span<const Tensor> variables,
                        double scale) {
  const std::lock_guard lock(mutex_);
  begin_moment_once();
  const GlobalViewGuard global_view;
  const at::NoGradGuard no_grad;
  std::vector<int> numbers;
  std::vector<Tensor> sent;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto number = state_.find(variables[i]);
    if (!number || state_.changed_by(optimizer, *number).empty())
      throw Error(ErrorCode::invalid_argument,
                  str("apply_gradients: variable ", i, " of shape ", str_list(variables[i].sizes()),
                      " is none of those that the optimizer was built with"));
    if (std::ranges::find(numbers, *number) != numbers.end())
      throw Error(ErrorCode::invalid_argument, str("apply_gradients: variable ", i, " is listed twice"));
    if (!gradients[i].defined()) continue;
    numbers.push_back(*number);
    sent.push_back(traveling(gradients[i], state_[*number], i));
  }
  if (numbers.empty())
    throw Error(ErrorCode::invalid_argument,
                "apply_gradients: no variable has a gradient; does the loss depend on them?");
  send_push(optimizer, scale, numbers, sent);
}

void WorkerCopies::finish() {
  const std::lock_guard lock(mutex_);
  if (!has_begun_) return;
  push_differences();
  pushes_of_[call_.function] = num_pushed_;
}

void WorkerCopies::push_differences() {
  const GlobalViewGuard global_view;
  const at::NoGradGuard no_grad;
  std::vector<int> numbers;
  std::vector<Tensor> differences;
  for (int number = 0; number < state_.num_tensors(); ++number) {
    if (!state_.is_alive(number)) continue;
    auto& impl = mesh_impl(state_.tensor(number));
    if (state_[number].is_trained || state_[number].is_elsewhere) {
      if (impl.writes() == copy(number).writes) continue;
      known_.forget(number);
      ahead_ = {};
      throw Error(
          ErrorCode::failed_precondition,
          str("a worker's function wrote in place to variable ", number, " of shape ", str_list(state_[number].sizes),
              ", of which it has a copy; servers update variables: use apply_gradients of an optimizer of "
              "Keras that was built in the strategy's build"));
    }
    if (!is_whole(number)) continue;
    const Tensor now = impl.read()[0].detach();
    const auto bytes = bytes_of(now);
    if (std::ranges::equal(bytes, copy(number).begun)) continue;
    if (now.scalar_type() == at::kBool)
      throw Error(ErrorCode::unimplemented, "a worker's function wrote to a boolean buffer, which servers do not sum");
    Tensor before = now.clone();
    std::memcpy(before.mutable_data_ptr(), copy(number).begun.data(), before.nbytes());
    numbers.push_back(number);
    differences.push_back(at::sub(now, before).contiguous());
    known_.forget(number);
  }
  if (!numbers.empty()) send_push(-1, 1, numbers, differences);
}

}  // namespace tutti::servers
