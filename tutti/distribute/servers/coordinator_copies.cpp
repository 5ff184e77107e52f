#include "tutti/distribute/servers/coordinator_copies.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tutti/core/crc32c.h"
#include "tutti/core/str.h"
#include "tutti/distribute/servers/long_message.h"
#include "tutti/tensor/mesh_tensor.h"
#include "tutti/tensor/view.h"

namespace tutti::servers {
namespace {

struct PlainAccess {
  GlobalViewGuard global_view;
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::NoGradGuard no_grad;
};

// So many bytes have a checksum of their own: few that did not change are looked at beside a row that did.
constexpr size_t kBlockBytes = 1024;

uint32_t checksum(std::span<const uint8_t> bytes, size_t block) {
  const auto rest = bytes.subspan(block * kBlockBytes);
  return crc32c(rest.data(), std::min(rest.size(), kBlockBytes));
}

std::vector<uint32_t> checksums_of(std::span<const uint8_t> bytes) {
  std::vector<uint32_t> all((bytes.size() + kBlockBytes - 1) / kBlockBytes);
  for (size_t block = 0; block < all.size(); ++block) all[block] = checksum(bytes, block);
  return all;
}

}  // namespace

// Since it was brought.
bool CoordinatorCopies::was_written(int number) const {
  const auto position = static_cast<size_t>(number);
  if (position >= checksums_.size() || checksums_[position].empty()) return false;
  const auto bytes = bytes_of(mesh_impl(state_.tensor(number)).read()[0]);
  const auto& known = checksums_[position];
  for (size_t block = 0; block < known.size(); ++block)
    if (checksum(bytes, block) != known[block]) return true;
  return false;
}

void CoordinatorCopies::pull(bool keeps_writes) {
  if (keeps_writes) state_.settle_optimizers();
  const PlainAccess access;
  checksums_.resize(static_cast<size_t>(state_.num_tensors()));
  std::vector<int> brought;
  for (int number = 0; number < state_.num_tensors(); ++number)
    if (state_.is_alive(number) && !(keeps_writes && was_written(number))) brought.push_back(number);
  const auto write = [&](int server) -> std::optional<LongMessage> {
    if (!has_any(state_, brought, server)) return {};
    LongMessage message(Kind::pull_changes);
    write_pull(message, state_, known_, brought, server);
    return message;
  };
  std::vector<bool> is_changed(checksums_.size());
  requests_.ask(write, [&](int server, ByteReader& reader) {
    for (const int number : brought) {
      if (!is_on(state_, number, server)) continue;
      const auto version = static_cast<uint64_t>(reader.number());
      if (version == known_.of(number, server)) continue;
      is_changed[static_cast<size_t>(number)] = true;
      take(number, (reader.number_in(0, 1) == 1 ? read_rows : read_whole)(state_, number, server, reader));
      known_.of(number, server) = version;
    }
  });
  for (const int number : brought) {
    if (!is_changed[static_cast<size_t>(number)]) continue;
    auto& impl = mesh_impl(state_.tensor(number));
    if (!impl.is_inference()) impl.bump_version();
    impl.finish_write();
  }
  pull_numbers(keeps_writes);
}

std::vector<CoordinatorCopies::Part> CoordinatorCopies::read_whole(const ServedState& state, int number, int server,
                                                                   ByteReader& reader) {
  if (state.bytes_on(number, server) > reader.left()) reader.damaged("a value ends too early");
  const ServedTensor& of = state[number];
  std::vector<Part> parts;
  for (const Shard& shard : of.shards)
    if (const auto count = static_cast<size_t>(shard.num_rows * of.row_bytes); shard.server == server && count > 0)
      parts.push_back({static_cast<size_t>(shard.first_row * of.row_bytes), count, read_part(reader, count)});
  return parts;
}

std::vector<CoordinatorCopies::Part> CoordinatorCopies::read_rows(const ServedState& state, int number, int server,
                                                                  ByteReader& reader) {
  const auto row_bytes = static_cast<size_t>(state[number].row_bytes);
  std::vector<Part> parts;
  for (const int64_t row : state.read_rows(reader, number, server))
    parts.push_back({static_cast<size_t>(row) * row_bytes, row_bytes, nullptr});
  for (Part& part : parts) part.from = reader.raw(row_bytes);
  return parts;
}

// The parts ascend. Where the program has written meanwhile beside one, the block keeps its checksum, and so counts as
// written since.
void CoordinatorCopies::take(int number, std::span<const Part> parts) {
  auto& impl = mesh_impl(state_.tensor(number));
  const bool is_whole = parts.size() == 1 && parts[0].count == impl.components()[0].nbytes();
  const Tensor& buffer = (is_whole ? impl.overwrite() : impl.write())[0];
  auto* const memory = static_cast<uint8_t*>(buffer.mutable_data_ptr());
  const auto bytes = bytes_of(buffer);
  auto& checksums = checksums_[static_cast<size_t>(number)];
  std::vector<size_t> blocks;  // that parts lie in
  const auto was_written = [&](size_t block, const Part& part) {
    const size_t begin = block * kBlockBytes, end = std::min(begin + kBlockBytes, bytes.size());
    return (begin < part.begin || part.begin + part.count < end) && checksum(bytes, block) != checksums[block];
  };
  if (checksums.empty()) checksums = checksums_of(bytes);
  size_t next = 0;
  for (const Part& part : parts)
    for (size_t block = std::max(next, part.begin / kBlockBytes); block * kBlockBytes < part.begin + part.count;
         ++block) {
      if (!was_written(block, part)) blocks.push_back(block);
      next = block + 1;
    }
  for (const Part& part : parts) std::memcpy(memory + part.begin, part.from, part.count);
  for (const size_t block : blocks) checksums[block] = checksum(bytes, block);
}

// A server that has no variable of an update does not count it: the greatest of each number is the one that counts.
void CoordinatorCopies::pull_numbers(bool keeps_writes) {
  const size_t num_brought = numbers_.size();
  numbers_.resize(static_cast<size_t>(state_.num_optimizers()));
  for (int number = 0; number < state_.num_optimizers(); ++number) {
    if (!state_.optimizer(number).is_alive()) continue;
    const auto position = static_cast<size_t>(number);
    if (keeps_writes && position < num_brought && state_.optimizer(number).numbers() != numbers_[position]) continue;
    std::vector<double> furthest;
    requests_.ask(
        [&](int) {
          LongMessage message(Kind::read_numbers);
          message.number(number);
          return std::optional(std::move(message));
        },
        [&](int, ByteReader& reader) {
          std::vector<double> numbers(static_cast<size_t>(reader.count(sizeof(double))));
          std::memcpy(numbers.data(), reader.raw(numbers.size() * sizeof(double)), numbers.size() * sizeof(double));
          if (furthest.empty()) furthest = numbers;
          if (numbers.size() != furthest.size()) reader.damaged("two servers have not the same numbers");
          std::ranges::transform(furthest, numbers, furthest.begin(),
                                 [](double a, double b) { return std::max(a, b); });
        });
    state_.optimizer(number).set_numbers(furthest);
    numbers_[position] = std::move(furthest);
  }
}

void CoordinatorCopies::push_writes() {
  state_.settle_optimizers();
  const PlainAccess access;
  std::vector<int> written;
  for (int number = 0; number < state_.num_tensors(); ++number)
    if (state_.is_alive(number) && was_written(number)) written.push_back(number);
  const auto write = [&](int server) -> std::optional<LongMessage> {
    if (written.empty()) return {};
    LongMessage message(Kind::assign);
    message.number(static_cast<int64_t>(written.size()));
    for (const int number : written) {
      message.number(number);
      state_.append(message, number, server);
    }
    return message;
  };
  requests_.ask(write, [](int, ByteReader&) {});
  for (const int number : written)
    checksums_[static_cast<size_t>(number)] = checksums_of(bytes_of(mesh_impl(state_.tensor(number)).read()[0]));
  push_numbers();
}

void CoordinatorCopies::push_numbers() {
  for (int number = 0; number < state_.num_optimizers(); ++number) {
    if (!state_.optimizer(number).is_alive()) continue;
    const auto numbers = state_.optimizer(number).numbers();
    auto& known = numbers_[static_cast<size_t>(number)];
    if (numbers == known) continue;
    requests_.ask(
        [&](int) {
          LongMessage message(Kind::write_numbers);
          message.number(number);
          message.number(static_cast<int64_t>(numbers.size()));
          message.raw(numbers.data(), numbers.size() * sizeof(double));
          return std::optional(std::move(message));
        },
        [](int, ByteReader&) {});
    known = numbers;
  }
}

}  // namespace tutti::servers
