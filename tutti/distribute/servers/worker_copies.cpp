#include "tutti/distribute/servers/worker_copies.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
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

// By who shares it.
std::shared_ptr<const Tensor> kept_alive(const Tensor& tensor) { return std::make_shared<const Tensor>(tensor); }

// A gradient as it travels: plain, of the variable's dtype.
Tensor traveling(const Tensor& gradient, const ServedTensor& of, size_t position) {
  if (gradient.sizes() != at::IntArrayRef(of.sizes))
    throw Error(ErrorCode::invalid_argument,
                str("apply_gradients: gradient ", position, " has shape ", str_list(gradient.sizes()),
                    ", its variable has ", str_list(of.sizes), "; they must be equal"));
  if (!is_mesh_tensor(gradient) && in_host_memory(gradient) && gradient.is_contiguous() &&
      gradient.scalar_type() == of.dtype && !gradient.is_conj() && !gradient.is_neg())
    return gradient;
  const Tensor plain = gather(gradient).detach().to(at::kCPU, of.dtype);
  if (plain.is_sparse() && plain.sparse_dim() == 1) return plain.coalesce();
  return plain.to_dense().resolve_conj().resolve_neg().contiguous();
}

// Whether the bytes between these rows, which ascend, are zero.
bool is_zero_elsewhere(std::span<const uint8_t> bytes, std::span<const int64_t> rows, size_t row_bytes) {
  const auto is_zero = [](std::span<const uint8_t> part) {
    return part.empty() || (part[0] == 0 && std::equal(part.begin() + 1, part.end(), part.begin()));
  };
  size_t begin = 0;
  for (const int64_t row : rows) {
    const size_t place = static_cast<size_t>(row) * row_bytes;
    if (!is_zero(bytes.subspan(begin, place - begin))) return false;
    begin = place + row_bytes;
  }
  return is_zero(bytes.subspan(begin));
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
  if (has_begun_) push_buffers();
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
    copied.is_stale = false;
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
    brought.is_stale = false;
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
  const auto number = state_.find_memory_of(tensor);
  if (!number || is_whole(*number)) return;
  if (state_[*number].is_elsewhere) refuse_whole(*number);
  std::set<int>& read = read_by_[call_.function];
  read.insert(*number);
  std::vector<int> brought{*number};
  if (copy(*number).is_stale)  // the others that were updated will be read, too
    std::ranges::copy_if(read, std::back_inserter(brought),
                         [&](int other) { return other != *number && state_.is_alive(other) && copy(other).is_stale; });
  std::ranges::sort(brought);
  bring(brought);
}

std::optional<LookedUpRows> WorkerCopies::read_rows(const Tensor& table, const Tensor& ids) {
  const std::lock_guard lock(mutex_);
  begin_moment_once();
  const auto number = state_.find(table);
  if (!number) read(table);  // it may be a view of one
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

// Of a table that was only looked up, the rows that were, where its gradient has nothing else; else none: all travel.
std::vector<int64_t> WorkerCopies::rows_to_push(int number, const Tensor& gradient) {
  if (gradient.is_sparse()) {
    const Tensor ids = gradient.indices()[0].contiguous();
    return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel()};
  }
  Copy& copied = copy(number);
  if (copied.whole_in == moment_ || copied.rows_in != moment_) return {};
  std::ranges::sort(copied.rows);
  const auto row_bytes = static_cast<size_t>(state_[number].row_bytes);
  return is_zero_elsewhere(bytes_of(gradient), copied.rows, row_bytes) ? copied.rows : std::vector<int64_t>();
}

void WorkerCopies::append_gradient(LongMessage& message, int server, const Pushed& pushed) const {
  const ServedTensor& of = state_[pushed.number];
  const Tensor& gradient = pushed.gradient;
  const std::vector<int64_t>& rows = pushed.rows;
  const bool has_rows = gradient.is_sparse() || !rows.empty();
  const GradientForm form = !has_rows                                  ? GradientForm::whole
                            : gradient.is_sparse() && !of.is_elsewhere ? GradientForm::rows_of_sparse
                                                                       : GradientForm::rows_of_dense;
  message.number(static_cast<int64_t>(form));
  if (!has_rows)
    return state_.append_rows(message, pushed.number, server, gradient.const_data_ptr(), kept_alive(gradient));
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
  const Tensor values = gradient.is_sparse() ? gradient.values().resolve_conj().resolve_neg().contiguous() : gradient;
  const auto bytes = bytes_of(values);
  const auto row_bytes = static_cast<size_t>(of.row_bytes);
  for (size_t i = 0; i < here.size(); ++i) {
    const size_t from = gradient.is_sparse() ? places[i] : static_cast<size_t>(here[i]);
    message.raw(bytes.data() + from * row_bytes, row_bytes);
  }
}

void WorkerCopies::append_buffer(LongMessage& message, int server, const Pushed& pushed) const {
  state_.append_rows(message, pushed.number, server, pushed.before.data());
  state_.append_rows(message, pushed.number, server, pushed.now.const_data_ptr(), kept_alive(pushed.now));
}

std::optional<LongMessage> WorkerCopies::push_message(int server, int optimizer, double scale,
                                                      std::span<const Pushed> pushed, std::span<const int> wanted) {
  std::vector<const Pushed*> here;
  for (const Pushed& each : pushed)
    if (std::ranges::any_of(state_[each.number].shards, [&](const Shard& shard) { return shard.server == server; }))
      here.push_back(&each);
  if (here.empty() && !(optimizer >= 0 && state_.optimizer(optimizer).counts_updates)) return {};
  LongMessage message(Kind::push);
  message.number(call_.number);
  message.number(num_pushed_);
  message.number(first_open_);
  message.number(optimizer);
  message.raw(&scale, sizeof scale);
  write_pull(message, state_, known_, wanted, server);
  message.number(static_cast<int64_t>(here.size()));
  for (const Pushed* each : here) {
    message.number(each->number);
    if (each->gradient.defined())
      append_gradient(message, server, *each);
    else
      append_buffer(message, server, *each);
  }
  return message;
}

// With the last update that the function is about to make, as its last call had it, comes what the next call is to
// read: that call was there before, so what it reads need not be later.
void WorkerCopies::send_push(int optimizer, double scale, std::span<const Pushed> pushed) {
  ahead_ = {};
  const auto last = pushes_of_.find(call_.function);
  const bool is_last = last != pushes_of_.end() && num_pushed_ + 1 == last->second;
  Ahead ahead;
  if (next_ && is_last && read_by_.contains(next_->function)) ahead.tensors = wanted_by(next_->function);
  requests_.ask([&](int server) { return push_message(server, optimizer, scale, pushed, ahead.tensors); },
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
  std::vector<Pushed> pushed;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto number = state_.find(variables[i]);
    if (!number || state_.changed_by(optimizer, *number).empty())
      throw Error(ErrorCode::invalid_argument,
                  str("apply_gradients: variable ", i, " of shape ", str_list(variables[i].sizes()),
                      " is none of those that the optimizer was built with"));
    if (std::ranges::find(pushed, *number, &Pushed::number) != pushed.end())
      throw Error(ErrorCode::invalid_argument, str("apply_gradients: variable ", i, " is listed twice"));
    if (!gradients[i].defined()) continue;
    Tensor gradient = traveling(gradients[i], state_[*number], i);
    std::vector<int64_t> rows = rows_to_push(*number, gradient);
    pushed.push_back({.number = *number, .gradient = std::move(gradient), .rows = std::move(rows)});
  }
  if (pushed.empty())
    throw Error(ErrorCode::invalid_argument,
                "apply_gradients: no variable has a gradient; does the loss depend on them?");
  send_push(optimizer, scale, pushed);
  if (state_.optimizer(optimizer).changes_all_variables)
    for (const int number : state_.variables_of(optimizer)) note_update(number);
  else
    for (const Pushed& each : pushed) note_update(each.number);
}

// What is read of it from now on is brought anew. A graph that holds what it was says so, as behind any optimizer's
// step.
void WorkerCopies::note_update(int number) {
  Copy& copied = copy(number);
  copied.whole_in = copied.rows_in = 0;
  copied.is_stale = true;
  copied.values = {};
  copied.places.clear();
  if (state_[number].is_elsewhere) return;
  auto& impl = mesh_impl(state_.tensor(number));
  const bool is_functions_write = was_written(number);
  impl.overwrite();
  if (!impl.is_inference()) impl.bump_version();
  impl.finish_write();
  if (!is_functions_write) copied.writes = impl.writes();
}

void WorkerCopies::finish() {
  const std::lock_guard lock(mutex_);
  if (!has_begun_) return;
  push_buffers();
  pushes_of_[call_.function] = num_pushed_;
}

void WorkerCopies::abandon() {
  const std::lock_guard lock(mutex_);
  if (!has_begun_) return;
  const GlobalViewGuard global_view;
  const at::NoGradGuard no_grad;
  ahead_ = {};
  for (int number = 0; number < state_.num_tensors(); ++number)
    if (state_.is_alive(number) && was_written(number)) known_.forget(number);
}

// By the function, in this moment.
bool WorkerCopies::was_written(int number) {
  auto& impl = mesh_impl(state_.tensor(number));
  if (state_[number].is_trained || state_[number].is_elsewhere) return impl.writes() != copy(number).writes;
  return is_whole(number) && !std::ranges::equal(bytes_of(impl.read()[0]), copy(number).begun);
}

void WorkerCopies::push_buffers() {
  const GlobalViewGuard global_view;
  const at::NoGradGuard no_grad;
  std::vector<Pushed> pushed;
  for (int number = 0; number < state_.num_tensors(); ++number) {
    if (!state_.is_alive(number) || !was_written(number)) continue;
    if (state_[number].is_trained || state_[number].is_elsewhere)
      throw Error(
          ErrorCode::failed_precondition,
          str("a worker's function wrote in place to variable ", number, " of shape ", str_list(state_[number].sizes),
              ", of which it has a copy; servers update variables: use apply_gradients of an optimizer of "
              "Keras that was built in the strategy's build"));
    pushed.push_back({.number = number,
                      .before = std::move(copy(number).begun),
                      .now = mesh_impl(state_.tensor(number)).read()[0].detach().clone()});
  }
  if (pushed.empty()) return;
  for (const Pushed& each : pushed) {
    known_.forget(each.number);
    copy(each.number).whole_in = 0;
  }
  send_push(-1, 1, pushed);
}

}  // namespace tutti::servers
