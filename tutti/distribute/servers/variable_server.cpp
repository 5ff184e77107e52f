#include "tutti/distribute/servers/variable_server.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstring>

#include "tutti/core/str.h"
#include "tutti/distribute/servers/long_message.h"
#include "tutti/tensor/mesh_tensor.h"

namespace tutti::servers {
namespace {

constexpr const char* kRequest = "a request to a server";
constexpr int64_t kMostUpdates = int64_t{1} << 40;  // of a call

}  // namespace

Bytes VariableServer::answer(const Bytes& request) {
  try {
    ByteReader reader(request, kRequest);
    LongMessage message(Kind::done);
    answer(read_kind(reader), reader, message);
    reader.finish();
    return message.bytes();
  } catch (...) {
    ByteWriter writer = message_of(Kind::failed);
    write_error(writer, std::current_exception(), str("ps ", server_));
    return writer.bytes();
  }
}

void VariableServer::answer(Kind kind, ByteReader& reader, LongMessage& message) {
  const auto optimizer = [&]() -> const ServedOptimizer& {
    return state_.optimizer(static_cast<int>(reader.number_in(0, state_.num_optimizers() - 1)));
  };
  switch (kind) {
    case Kind::pull: return pull(reader, message);
    case Kind::pull_rows: return pull_rows(reader, message);
    case Kind::push: return push(reader);
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

uint64_t& VariableServer::version(int number) {
  if (versions_.size() < static_cast<size_t>(state_.num_tensors()))
    versions_.resize(static_cast<size_t>(state_.num_tensors()), 1);
  return versions_[static_cast<size_t>(number)];
}

int VariableServer::read_tensor_number(ByteReader& reader) const {
  return static_cast<int>(reader.number_in(0, state_.num_tensors() - 1));
}

void VariableServer::pull(ByteReader& reader, LongMessage& message) {
  for (int64_t left = reader.count(2 * sizeof(int64_t)); left > 0; --left) {
    const int number = read_tensor_number(reader);
    const auto known = static_cast<uint64_t>(reader.number());
    message.number(static_cast<int64_t>(version(number)));
    if (known != version(number)) state_.append(message, number, server_);
  }
}

// Rows of this server, each behind the one before.
std::vector<int64_t> VariableServer::read_rows(ByteReader& reader, int number) const {
  const ServedTensor& of = state_[number];
  std::vector<int64_t> rows(static_cast<size_t>(reader.count(sizeof(int64_t))));
  size_t shard = 0;
  int64_t least = 0;
  for (int64_t& row : rows) {
    row = reader.number_in(least, of.num_rows - 1);
    least = row + 1;
    while (row >= of.shards[shard].first_row + of.shards[shard].num_rows) ++shard;
    if (of.shards[shard].server != server_)
      reader.damaged(str("row ", row, " of tensor ", number, " is not on ps ", server_));
  }
  return rows;
}

void VariableServer::pull_rows(ByteReader& reader, LongMessage& message) {
  const int number = read_tensor_number(reader);
  const auto row_bytes = static_cast<size_t>(state_[number].row_bytes);
  const char* const from = state_.memory(number);
  for (const int64_t row : read_rows(reader, number))
    message.raw(from + static_cast<size_t>(row) * row_bytes, row_bytes);
}

// Of the whole tensor; zero in rows that did not come.
Tensor VariableServer::read_gradient(ByteReader& reader, int number) {
  const ServedTensor& of = state_[number];
  const bool has_rows = reader.number_in(0, 1) == 1;
  if (!has_rows && state_.bytes_on(number, server_) > reader.left()) reader.damaged("a gradient ends too early");
  const at::TensorOptions options = at::TensorOptions(at::kCPU).dtype(of.dtype);
  const bool is_whole =
      !has_rows && state_.bytes_on(number, server_) == static_cast<size_t>(of.num_rows * of.row_bytes);
  Tensor gradient = is_whole ? at::empty(of.sizes, options) : at::zeros(of.sizes, options);
  auto* const memory = static_cast<char*>(gradient.mutable_data_ptr());
  if (!has_rows) {
    state_.take(reader, number, server_, memory);
    return gradient;
  }
  const auto row_bytes = static_cast<size_t>(of.row_bytes);
  for (const int64_t row : read_rows(reader, number))
    std::memcpy(memory + static_cast<size_t>(row) * row_bytes, reader.raw(row_bytes), row_bytes);
  return gradient;
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

void VariableServer::push(ByteReader& reader) {
  const Push push{.call = reader.number(), .number = reader.number_in(0, kMostUpdates), .first_open = reader.number()};
  const auto optimizer = static_cast<int>(reader.number_in(-1, state_.num_optimizers() - 1));
  double scale;
  std::memcpy(&scale, reader.raw(sizeof scale), sizeof scale);
  if (!is_new(push)) {
    reader.raw(reader.left());
    return;
  }
  try {
    update(reader, optimizer, scale);
  } catch (...) {
    made_[push.call].failure = std::current_exception();
    throw;
  }
}

void VariableServer::update(ByteReader& reader, int optimizer, double scale) {
  std::vector<int> numbers;
  std::vector<Tensor> gradients, variables;
  for (int64_t left = reader.count(2 * sizeof(int64_t)); left > 0; --left) {
    numbers.push_back(read_tensor_number(reader));
    variables.push_back(state_.tensor(numbers.back()));
    gradients.push_back(read_gradient(reader, numbers.back()));
  }
  reader.finish();
  const at::NoGradGuard no_grad;
  for (const int variable : numbers) {
    if (optimizer < 0) ++version(variable);
    if (optimizer >= 0)
      for (const int changed : state_.changed_by(optimizer, variable)) ++version(changed);
  }
  if (optimizer >= 0) state_.optimizer(optimizer).apply(gradients, variables, scale);
  for (size_t i = 0; optimizer < 0 && i < variables.size(); ++i) variables[i].add_(gradients[i]);
}

void VariableServer::assign(ByteReader& reader) {
  for (int64_t left = reader.count(sizeof(int64_t)); left > 0; --left) {
    const int number = read_tensor_number(reader);
    if (state_.bytes_on(number, server_) > reader.left()) reader.damaged("a value ends too early");
    state_.take(reader, number, server_, state_.memory(number));
    ++version(number);
  }
}

}  // namespace tutti::servers
