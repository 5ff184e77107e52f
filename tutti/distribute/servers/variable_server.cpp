#include "tutti/distribute/servers/variable_server.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CPUAllocator.h>

#include <cmath>
#include <cstring>

#include "tutti/core/str.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/sparse_tensor.h"

namespace tutti::servers {
namespace {

constexpr const char* kRequest = "a request to a server";
constexpr int64_t kMostUpdates = int64_t{1} << 40;  // of a call

// A tensor in the memory where it came. It counts as LibTorch's: an optimizer may take it as it is.
Tensor in_place(const Incoming& request, const uint8_t* bytes, const ServedTensor& of) {
  return at::for_blob(const_cast<uint8_t*>(bytes), of.sizes)
      .deleter([owner = request.owner()](void*) {})
      .allocator(c10::GetCPUAllocator())
      .options(at::TensorOptions(at::kCPU).dtype(of.dtype))
      .make_tensor();
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// Somebody who keeps a gradient gets memory of its own, since messages take the room of what comes next.
void leave_message(const Tensor& gradient) {
  if (gradient.use_count() == 1 && gradient.storage().use_count() == 1) return;
  c10::StorageImpl& storage = *gradient.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(storage.allocator()->clone(storage.data(), storage.nbytes()));
}

// A buffer that was `before` when a function began, `after` when it ended, and is now `present`.
Tensor merged(const Tensor& before, const Tensor& after, const Tensor& present, int number) {
  if (same_bytes(before, present)) return after;
  const auto refuse = [&](const char* why) {
    throw Error(ErrorCode::failed_precondition,
                str("buffer ", number, " of shape ", str_list(present.sizes()),
                    " was written by two functions at once, whose changes cannot be added: ", why,
                    "; have one function write it, or schedule the next after join"));
  };
  if (present.scalar_type() == at::kBool) refuse("it is boolean");
  const Tensor is_same = before.eq(after).logical_or(before.ne(before).logical_and(after.ne(after)));
  const Tensor change = after.sub(before).masked_fill_(is_same, 0);
  if (after.isfinite().logical_and(change.isfinite().logical_not()).any().item<bool>())
    refuse("a difference is not finite");
  return present.add(change);
}

}  // namespace

LongMessage VariableServer::answer(const Incoming& request) {
  try {
    ByteReader reader(request, kRequest);
    LongMessage message(Kind::done);
    answer(read_kind(reader), reader, request, message);
    reader.finish();
    return message;
  } catch (...) {
    ByteWriter writer = message_of(Kind::failed);
    write_error(writer, std::current_exception(), str("ps ", server_));
    return LongMessage(std::move(writer));
  }
}

void VariableServer::answer(Kind kind, ByteReader& reader, const Incoming& request, LongMessage& message) {
  const auto optimizer = [&]() -> const ServedOptimizer& {
    return state_.optimizer(static_cast<int>(reader.number_in(0, state_.num_optimizers() - 1)));
  };
  switch (kind) {
    case Kind::pull: return pull(reader, message);
    case Kind::pull_changes: return pull_changes(reader, message);
    case Kind::pull_rows: return pull_rows(reader, message);
    case Kind::push: return push(reader, request, message);
    case Kind::assign: return assign(reader);
    case Kind::read_numbers: {
      const auto numbers = optimizer().numbers();
      message.number(static_cast<int64_t>(numbers.size()));
      return message.raw(numbers.data(), numbers.size() * sizeof(double));
    }
    case Kind::write_numbers: {
      const ServedOptimizer& to = optimizer();
      std::vector<double> numbers(static_cast<size_t>(reader.count(sizeof(double))));
      std::memcpy(numbers.data(), reader.raw(numbers.size() * sizeof(double)), numbers.size() * sizeof(double));
      return to.set_numbers(numbers);
    }
    default: reader.damaged(str("message ", static_cast<int64_t>(kind), " is none"));
  }
}

VariableServer::Tracked& VariableServer::tracked(int number) {
  if (tracked_.size() < static_cast<size_t>(state_.num_tensors()))
    tracked_.resize(static_cast<size_t>(state_.num_tensors()));
  return tracked_[static_cast<size_t>(number)];
}

void VariableServer::note_change(int number) {
  ++tracked(number).version;
  tracked(number).changed.note_all();
}

void VariableServer::note_gradient(int optimizer, int variable, const ServedGradient& gradient, double scale) {
  const ServedOptimizer& by = state_.optimizer(optimizer);
  // A scale that is not finite makes other rows' zeros NaN, where the optimizer has to make the gradient dense.
  const bool changes_rows_alone =
      gradient.value.is_sparse() && std::isfinite(scale) && by.changes_rows_alone(gradient, state_.tensor(variable));
  const Tensor rows = changes_rows_alone ? gradient.value._indices()[0].contiguous() : Tensor();
  for (const int changed : state_.changed_by(optimizer, variable)) {
    if (!changes_rows_alone || state_[changed].num_rows != state_[variable].num_rows) {
      note_change(changed);
      continue;
    }
    ++tracked(changed).version;
    tracked(changed).changed.note({rows.const_data_ptr<int64_t>(), static_cast<size_t>(rows.numel())});
  }
}

int VariableServer::read_tensor_number(ByteReader& reader) const {
  return static_cast<int>(reader.number_in(0, state_.num_tensors() - 1));
}

void VariableServer::pull(ByteReader& reader, LongMessage& message) {
  for (int64_t left = reader.count(2 * sizeof(int64_t)); left > 0; --left) pull_one(reader, message);
}

void VariableServer::pull_one(ByteReader& reader, LongMessage& message) {
  const int number = read_tensor_number(reader);
  const auto known = static_cast<uint64_t>(reader.number());
  const uint64_t version = tracked(number).version;
  message.number(static_cast<int64_t>(version));
  if (known != version) state_.append(message, number, server_);
}

void VariableServer::pull_changes(ByteReader& reader, LongMessage& message) {
  for (int64_t left = reader.count(2 * sizeof(int64_t)); left > 0; --left) {
    const int number = read_tensor_number(reader);
    const auto known = static_cast<uint64_t>(reader.number());
    auto& [version, changed] = tracked(number);
    message.number(static_cast<int64_t>(version));
    if (known == version) continue;
    const auto rows = changed.since(known);
    message.number(rows.has_value());
    if (rows) {
      message.number(static_cast<int64_t>(rows->size()));
      message.raw(rows->data(), rows->size() * sizeof(int64_t));
      append_values(message, number, *rows);
    } else {
      state_.append(message, number, server_);
    }
    changed.tell(version, state_[number].num_rows);
  }
}

void VariableServer::pull_rows(ByteReader& reader, LongMessage& message) {
  const int number = read_tensor_number(reader);
  append_values(message, number, state_.read_rows(reader, number, server_));
}

void VariableServer::append_values(LongMessage& message, int number, std::span<const int64_t> rows) {
  const auto row_bytes = static_cast<size_t>(state_[number].row_bytes);
  const char* const from = state_.memory(number);
  for (const int64_t row : rows) message.raw(from + static_cast<size_t>(row) * row_bytes, row_bytes);
}

ServedGradient VariableServer::read_gradient(ByteReader& reader, const Incoming& request, int number) {
  const ServedTensor& of = state_[number];
  const auto form = static_cast<GradientForm>(reader.number_in(0, kLastGradientForm));
  const bool has_rows = form != GradientForm::whole;
  if (has_rows && of.sizes.empty()) reader.damaged(str("rows of tensor ", number, ", which has none"));
  if (!has_rows && state_.bytes_on(number, server_) > reader.left()) reader.damaged("a gradient ends too early");
  const auto all_bytes = static_cast<size_t>(of.num_rows * of.row_bytes);
  if (!has_rows && of.shards.size() == 1 && all_bytes > 0) {
    const uint8_t* const bytes = read_part(reader, all_bytes);
    if (reinterpret_cast<uintptr_t>(bytes) % c10::elementSize(of.dtype) == 0) return {in_place(request, bytes, of)};
    Tensor gradient = at::empty(of.sizes, at::TensorOptions(at::kCPU).dtype(of.dtype));
    std::memcpy(gradient.mutable_data_ptr(), bytes, all_bytes);
    return {gradient};
  }
  const auto options = at::TensorOptions(at::kCPU).dtype(of.dtype);
  if (!has_rows) {
    Tensor gradient = at::zeros(of.sizes, options);
    state_.take(reader, number, server_, static_cast<char*>(gradient.mutable_data_ptr()));
    return {gradient};
  }
  const std::vector<int64_t> rows = state_.read_rows(reader, number, server_);
  const auto num_bytes = static_cast<size_t>(of.row_bytes) * rows.size();
  const uint8_t* const bytes = reader.raw(num_bytes);
  std::vector<int64_t> sizes = of.sizes;
  sizes[0] = static_cast<int64_t>(rows.size());
  Tensor values = at::empty(sizes, options);
  if (num_bytes > 0) std::memcpy(values.mutable_data_ptr(), bytes, num_bytes);
  return {sparse_tensor(at::tensor(rows, at::kLong).unsqueeze(0), values, of.sizes, /*is_coalesced=*/true),
          form == GradientForm::rows_of_sparse};
}

// A server has no part in some updates of a call, but sees those that it has in their order.
bool VariableServer::is_new(const Push& push) {
  if (push.first_open > first_open_) {
    first_open_ = push.first_open;
    made_.erase(made_.begin(), made_.lower_bound(first_open_));
  }
  if (push.call < first_open_) return false;  // of a worker that was given up; another one has made the call
  Made& made = made_[push.call];
  if (push.number < made.count) {
    if (push.number + 1 == made.count && made.failure) std::rethrow_exception(made.failure);
    return false;
  }
  made = {.count = push.number + 1};
  return true;
}

void VariableServer::push(ByteReader& reader, const Incoming& request, LongMessage& message) {
  const Push push{.call = reader.number(), .number = reader.number_in(0, kMostUpdates), .first_open = reader.number()};
  const auto optimizer = static_cast<int>(reader.number_in(-1, state_.num_optimizers() - 1));
  double scale;
  std::memcpy(&scale, reader.raw(sizeof scale), sizeof scale);
  const auto num_pulled = static_cast<size_t>(reader.count(2 * sizeof(int64_t)));
  ByteReader pulled({reader.raw(num_pulled * 2 * sizeof(int64_t)), num_pulled * 2 * sizeof(int64_t)}, kRequest);
  if (is_new(push)) {
    try {
      optimizer < 0 ? write_buffers(reader) : update(reader, request, optimizer, scale);
    } catch (...) {
      made_[push.call].failure = std::current_exception();
      throw;
    }
  } else {
    reader.raw(reader.left());
  }
  while (pulled.left() > 0) pull_one(pulled, message);
}

void VariableServer::update(ByteReader& reader, const Incoming& request, int optimizer, double scale) {
  std::vector<int> numbers;
  std::vector<ServedGradient> gradients;
  std::vector<Tensor> variables;
  for (int64_t left = reader.count(2 * sizeof(int64_t)); left > 0; --left) {
    numbers.push_back(read_tensor_number(reader));
    variables.push_back(state_.tensor(numbers.back()));
    gradients.push_back(read_gradient(reader, request, numbers.back()));
  }
  reader.finish();
  const at::NoGradGuard no_grad;
  const auto note_all = [&](std::span<const int> all) {
    for (const int variable : all)
      for (const int changed : state_.changed_by(optimizer, variable)) note_change(changed);
  };
  std::exception_ptr failure;
  try {
    for (size_t i = 0; i < numbers.size(); ++i) note_gradient(optimizer, numbers[i], gradients[i], scale);
    state_.optimizer(optimizer).apply(gradients, variables, scale);
  } catch (...) {
    failure = std::current_exception();
    note_all(numbers);
  }
  if (state_.optimizer(optimizer).changes_all_slots) note_all(state_.variables_of(optimizer));
  for (const ServedGradient& gradient : gradients)
    if (!gradient.value.is_sparse()) leave_message(gradient.value);
  if (failure) std::rethrow_exception(failure);
}

// This server's rows, and the others' of that tensor.
Tensor VariableServer::read_rows_of(ByteReader& reader, int number, const Tensor& others) {
  if (state_.bytes_on(number, server_) > reader.left()) reader.damaged("a value ends too early");
  Tensor read = others.clone();
  state_.take(reader, number, server_, static_cast<char*>(read.mutable_data_ptr()));
  return read;
}

// Each as a function found it, and as it left it. What others have written since then stays.
void VariableServer::write_buffers(ByteReader& reader) {
  std::vector<std::pair<int, Tensor>> written;
  for (int64_t left = reader.count(sizeof(int64_t)); left > 0; --left) {
    const int number = read_tensor_number(reader);
    const Tensor present = gather(state_.tensor(number)).detach();
    const Tensor before = read_rows_of(reader, number, present), after = read_rows_of(reader, number, present);
    written.emplace_back(number, merged(before, after, present, number));
  }
  reader.finish();
  const at::NoGradGuard no_grad;
  for (const auto& [number, value] : written) {
    state_.tensor(number).copy_(value);
    note_change(number);
  }
}

void VariableServer::assign(ByteReader& reader) {
  for (int64_t left = reader.count(sizeof(int64_t)); left > 0; --left) {
    const int number = read_tensor_number(reader);
    if (state_.bytes_on(number, server_) > reader.left()) reader.damaged("a value ends too early");
    state_.take(reader, number, server_, state_.memory(number));
    note_change(number);
  }
}

}  // namespace tutti::servers
